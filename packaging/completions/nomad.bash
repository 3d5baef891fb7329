# Completion of nomad for bash. The program completes: it reads COMP_LINE and COMP_POINT.
_nomad() {
	mapfile -t COMPREPLY < <(COMP_LINE=$COMP_LINE COMP_POINT=$COMP_POINT nomad 2>/dev/null)
	if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == */ ]]; then
		compopt -o nospace # a directory: its files follow
	fi
}
complete -o default -F _nomad nomad
