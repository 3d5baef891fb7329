package command

import "github.com/open-nomad/open-nomad/command/term"

// laterCommands returns the commands of features that this version does not have.
func laterCommands() []term.Command {
	var out []term.Command
	for _, l := range []struct{ feature, names string }{
		{"Sentinel policies", "sentinel|sentinel apply|sentinel delete|sentinel list|sentinel read"},
		{"recommendations of Nomad Enterprise",
			"recommendation|recommendation apply|recommendation dismiss|recommendation info|recommendation list"},
		{"the Windows service", "windows|windows service install|windows service uninstall"},
	} {
		for _, name := range split(l.names) {
			out = append(out, term.Refuse(name, l.feature))
		}
	}
	return out
}
