# Turns scripts into C: cmake -DOUT=scripts.c -DFOLDER=<this folder> -DSCRIPTS=a,b,c -P embed.cmake
#
# Comments, empty lines and indents are left out. A line
# `--#include part.lua` is replaced by that file. The SHA1 is that of the result.
cmake_minimum_required(VERSION 3.25)
string(REPLACE "," ";" names "${SCRIPTS}")
set(code "/* Made by lua/embed.cmake from the scripts beside it. */\n#include \"stores/redis/script.h\"\n")

function(read_script file out)
  file(READ "${FOLDER}/${file}" text)
  string(REGEX MATCHALL "--#include [a-z_]+\\.lua\n" includes "${text}")
  foreach(line IN LISTS includes)
    string(REGEX REPLACE "--#include ([a-z_.]+)\n" "\\1" part "${line}")
    read_script("${part}" inner)
    string(REPLACE "${line}" "${inner}" text "${text}")
  endforeach()
  set(${out} "${text}" PARENT_SCOPE)
endfunction()

foreach(name IN LISTS names)
  read_script("${name}.lua" text)
  # What is not read by the server: indents, lines that are comments only, empty lines.
  string(REGEX REPLACE "(^|\n)([ \t]*--[^\n]*\n)+" "\\1" text "${text}")
  string(REGEX REPLACE "\n[ \t\n]+" "\n" text "${text}")
  string(SHA1 sha "${text}")
  string(LENGTH "${text}" length)
  string(REPLACE "\\" "\\\\" text "${text}")
  string(REPLACE "\"" "\\\"" text "${text}")
  string(REPLACE "\n" "\\n\"\n    \"" text "${text}")
  string(APPEND code "\nconst hf__script hf__script_${name} = {\n    .name = \"${name}\",\n    .len = ${length},\n"
                     "    .sha = \"${sha}\",\n    .text = \"${text}\",\n};\n")
endforeach()
file(WRITE "${OUT}" "${code}")
