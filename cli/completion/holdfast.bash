# bash completion of holdfast(1)                                  -*- shell-script -*-
# SPDX-License-Identifier: MIT

# The names that are in use in the default store. A store that is slow must not hold up the shell.
_holdfast_names()
{
    local IFS=$'\n'
    COMPREPLY=($(compgen -W '$(timeout 1 holdfast ls --names 2>/dev/null)' -- "$cur"))
}

# How many words that are no option, nor the value of one, stand between the verb and the word that is completed.
_holdfast_operands()
{
    local i count=0
    for ((i = 2; i < cword; i++)); do
        case ${words[i]} in
            -w | -E | -c | --wait | --timeout | --conflict-exit-code | --command | --permits | --weight | --at-least | \
                --max-hold | --lease | --watchdog | --on-loss | --grace | --note | --store | --claim)
                ((i++))
                ;;
            --) return 1 ;;
            -*) ;;
            *)
                ((count++))
                # What follows NAME is the command.
                [[ $verb == run ]] && break
                ;;
        esac
    done
    return $((count > 0))
}

_holdfast()
{
    local cur prev words cword split
    _init_completion || return

    if ((cword == 1)); then
        COMPREPLY=($(compgen -W 'run ls show break doctor schema --help --version' -- "$cur"))
        return
    fi
    local verb=${words[1]}

    if [[ $verb == run ]] && ! _holdfast_operands; then
        local i
        for ((i = 2; i < cword; i++)); do
            [[ ${words[i]} == -- ]] && break
        done
        if ((i == cword)); then
            # No "--": the command follows the first word that is no option.
            for ((i = 2; i < cword; i++)); do
                [[ ${words[i]} != -* && ${words[i - 1]} != -* ]] && break
            done
        fi
        _command_offset $((i + 1))
        return
    fi

    case $prev in
        --on-loss)
            COMPREPLY=($(compgen -W 'term kill stop ignore' -- "$cur"))
            return
            ;;
        --store)
            COMPREPLY=($(compgen -W 'sqlite:' -- "$cur"))
            return
            ;;
        -w | --wait | --timeout | --at-least | --max-hold | --lease | --watchdog | --grace | -E | \
            --conflict-exit-code | --permits | --weight | --note | --claim | -c | --command)
            return
            ;;
    esac

    local options='--help --store'
    case $verb in
        run)
            options+=' --nonblock --wait --conflict-exit-code --quiet --shared --exclusive --permits --weight --fair'
            options+=' --command --at-least --max-hold --lease --watchdog --on-loss --grace --heed --note --verbose'
            ;;
        ls) options+=' --json --names --timeout' ;;
        show | doctor) options+=' --json --timeout' ;;
        break) options+=' --claim --polite --yes --timeout' ;;
        *) return ;;
    esac
    if [[ $cur == -* ]]; then
        COMPREPLY=($(compgen -W "$options" -- "$cur"))
    elif [[ $verb != doctor ]] && _holdfast_operands; then
        _holdfast_names
    fi
} && complete -F _holdfast holdfast
