# Writes a copy of one source with one rule broken: cmake -DIN= -DOUT= -DOLD= -DNEW= -P mutant.cmake. It fails where the
# source no longer has the line, so that a mutant cannot go stale unseen. A second pair OLD2, NEW2 is optional.
file(READ ${IN} text)
foreach(n "" 2)
  if(DEFINED OLD${n})
    string(FIND "${text}" "${OLD${n}}" at)
    if(at EQUAL -1)
      message(FATAL_ERROR "${IN} has no line: ${OLD${n}}")
    endif()
    string(REPLACE "${OLD${n}}" "${NEW${n}}" text "${text}")
  endif()
endforeach()
file(WRITE ${OUT} "${text}")
