# Completion of nomad for fish. The program completes: it reads COMP_LINE.
function __nomad_complete
    set -l token (commandline -ct)
    set -l flag (string match -r -- '^-.*?=' "$token") # what precedes the value of a flag
    set -l line (commandline -cp)
    for offer in (env COMP_LINE="$line" nomad 2>/dev/null)
        printf '%s%s\n' "$flag" "$offer"
    end
end
complete -c nomad -f -a '(__nomad_complete)'
