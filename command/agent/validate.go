package agent

import (
	"context"

	"github.com/posener/complete"

	"github.com/open-nomad/open-nomad/command/agent/config"
	"github.com/open-nomad/open-nomad/command/term"
)

// Commands returns the commands of this package.
func Commands() []term.Command { return []term.Command{agentCommand(), validateCommand()} }

// validateCommand checks configuration files without an agent.
func validateCommand() term.Command {
	return term.Command{
		Name: "config validate", Args: "<path...>", MinArgs: 1, MaxArgs: -1,
		Short: "Check configuration files of an agent",
		Long: `Reads the files and directories in the order given, as an agent does with -config, and reports every
error. The configuration must be sufficient for an agent: a role, and a data_dir. Missing
certificate files are warnings, because they may exist only on another machine.`,
		Setup: func(*term.Flags) term.Run {
			return func(_ context.Context, e *term.Env) error {
				missing, err := config.Validate(e.Args)
				if err != nil {
					return err
				}
				for _, w := range missing {
					e.Warnf("Warning: %s", w)
				}
				e.Println("Configuration is valid")
				return nil
			}
		},
		Predict: complete.PredictFiles("*"),
	}
}
