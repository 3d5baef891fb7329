package command

import (
	"context"
	"slices"

	"github.com/open-nomad/open-nomad/command/acl"
	"github.com/open-nomad/open-nomad/command/agent"
	"github.com/open-nomad/open-nomad/command/alloc"
	"github.com/open-nomad/open-nomad/command/apicall"
	"github.com/open-nomad/open-nomad/command/bundle"
	"github.com/open-nomad/open-nomad/command/completion"
	"github.com/open-nomad/open-nomad/command/contexts"
	"github.com/open-nomad/open-nomad/command/deployment"
	"github.com/open-nomad/open-nomad/command/doctor"
	"github.com/open-nomad/open-nomad/command/enterprise"
	"github.com/open-nomad/open-nomad/command/eval"
	"github.com/open-nomad/open-nomad/command/job"
	"github.com/open-nomad/open-nomad/command/jobwait"
	"github.com/open-nomad/open-nomad/command/namespace"
	"github.com/open-nomad/open-nomad/command/node"
	"github.com/open-nomad/open-nomad/command/operator"
	"github.com/open-nomad/open-nomad/command/plugin"
	"github.com/open-nomad/open-nomad/command/quota"
	"github.com/open-nomad/open-nomad/command/scaling"
	"github.com/open-nomad/open-nomad/command/service"
	"github.com/open-nomad/open-nomad/command/setup"
	"github.com/open-nomad/open-nomad/command/term"
	"github.com/open-nomad/open-nomad/command/tls"
	"github.com/open-nomad/open-nomad/command/top"
	"github.com/open-nomad/open-nomad/command/variable"
	"github.com/open-nomad/open-nomad/command/volume"
	"github.com/open-nomad/open-nomad/internal/version"
)

// commands is the table of every command.
func commands() []term.Command {
	return completed(withPages(slices.Concat(
		[]term.Command{versionCommand(), fmtCommand(), statusCommand(), uiCommand()}, agent.Commands(),
		job.Commands(), alloc.Commands(), node.Commands(), eval.Commands(), deployment.Commands(), namespace.Commands(), quota.Commands(),
		operator.Commands(), apicall.Commands(), bundle.Commands(), enterprise.Commands(), plugin.Commands(), scaling.Commands(),
		service.Commands(), setup.Commands(), tls.Commands(), variable.Commands(), volume.Commands(), acl.Commands(),
		[]term.Command{jobwait.Command(), top.Command(), doctor.Command()}, contexts.Commands(), laterCommands(),
	)))
}

// completed adds the examples of the commands, and the completion of their arguments and flags in a shell.
func completed(commands []term.Command) []term.Command {
	for i, c := range commands {
		c.Example = examples[c.Name]
		commands[i] = completion.With(c)
	}
	return commands
}

func versionCommand() term.Command {
	return term.Command{
		Name: "version", Local: true, Short: "Print the version",
		Setup: func(*term.Flags) term.Run {
			return func(_ context.Context, e *term.Env) error {
				e.Println(version.Human())
				if rev := version.Commit(); rev != "" {
					e.Println("Revision " + rev)
				}
				return nil
			}
		},
	}
}
