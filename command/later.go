package command

import (
	"slices"

	"github.com/open-nomad/open-nomad/command/term"
)

// laterCommands returns the commands of features that this version does not have.
func laterCommands() []term.Command {
	var out []term.Command
	for _, l := range []struct{ feature, names string }{
		{"CSI volumes", "volume deregister|volume detach|volume snapshot create|volume snapshot delete|volume snapshot list"},
		{"Sentinel policies", "sentinel|sentinel apply|sentinel delete|sentinel list|sentinel read"},
		{"recommendations of Nomad Enterprise",
			"recommendation|recommendation apply|recommendation dismiss|recommendation info|recommendation list"},
		{"the Windows service", "windows|windows service install|windows service uninstall"},
		{"setup of Vault", "setup vault"},
	} {
		for _, name := range split(l.names) {
			out = append(out, term.Refuse(name, l.feature))
		}
	}
	return out
}

// laterFlags are the boolean flags of features that this version does not have, on commands
// that it has.
var laterFlags = []struct{ flag, feature, names string }{
	{"connect", "the service mesh of Consul", "job init"},
}

// withLaterFlags declares the refused flags of the commands.
func withLaterFlags(commands []term.Command) []term.Command {
	for i, c := range commands {
		for _, l := range laterFlags {
			if !slices.Contains(split(l.names), c.Name) {
				continue
			}
			setup := commands[i].Setup
			commands[i].Setup = func(f *term.Flags) term.Run {
				f.RefuseBool(l.flag, l.feature)
				return setup(f)
			}
		}
	}
	return commands
}
