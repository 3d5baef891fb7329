package command

import (
	"context"
	"fmt"
	"slices"

	"github.com/open-nomad/open-nomad/command/acl"
	"github.com/open-nomad/open-nomad/command/agent"
	"github.com/open-nomad/open-nomad/command/alloc"
	"github.com/open-nomad/open-nomad/command/deployment"
	"github.com/open-nomad/open-nomad/command/eval"
	"github.com/open-nomad/open-nomad/command/job"
	"github.com/open-nomad/open-nomad/command/namespace"
	"github.com/open-nomad/open-nomad/command/node"
	"github.com/open-nomad/open-nomad/command/operator"
	"github.com/open-nomad/open-nomad/command/quota"
	"github.com/open-nomad/open-nomad/command/term"
	"github.com/open-nomad/open-nomad/command/tls"
	"github.com/open-nomad/open-nomad/command/variable"
	"github.com/open-nomad/open-nomad/internal/version"
)

// commands is the table of every command.
func commands() []term.Command {
	return slices.Concat(
		[]term.Command{versionCommand(), fmtCommand(), statusCommand()}, agent.Commands(),
		job.Commands(), alloc.Commands(), node.Commands(), eval.Commands(), deployment.Commands(), namespace.Commands(), quota.Commands(), operator.Commands(), tls.Commands(), variable.Commands(), acl.Commands(),
		laterCommands(),
	)
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

// laterCommands are those of features that this version does not have.
func laterCommands() []term.Command {
	var out []term.Command
	for _, l := range []struct{ feature, names string }{
		{"service discovery", "service list|service info|service delete"},
		{"volumes", "volume status|volume create|volume register|volume delete|volume deregister|volume init|volume detach|volume claim delete|volume claim list|" +
			"volume snapshot create|volume snapshot delete|volume snapshot list"},
		{"actions", "job action|action"},
		{"health checks", "alloc checks"},
		{"scaling", "job scale|job scaling-events|scaling policy list|scaling policy info"},
		{"job revert", "job revert"},
		{"job version tags", "job tag apply|job tag unset"},
		{"periodic jobs", "job periodic force"},
		{"canary deployments", "job promote|deployment promote"},
		{"several regions", "deployment unblock"},
		{"dispatch from the command line (PUT /v1/job/<id>/dispatch does it)", "job dispatch"},
		{"deployments of a job from the command line (deployment list shows them)", "job deployments"},
		{"restarts of whole jobs", "job restart"},
		{"starting stopped jobs (job run does it)", "job start"},
		{"deletion of evaluations from the command line", "eval delete"},
		{"task schedules", "alloc pause"},
		{"requests by hand (curl does it)", "operator api"},
		{"tools for state files", "operator client-state"},
		{"usage reporting", "operator utilization"},
		{"debug bundles", "operator debug"},
		{"node metadata changes", "node meta apply|node meta read"},
		{"log monitoring", "monitor|monitor export"},
		{"the web UI", "ui"},
		{"plugins", "plugin status"},
		{"setup of Consul and Vault", "setup consul|setup vault"},
	} {
		for _, name := range split(l.names) {
			out = append(out, term.Command{Name: name, Local: true, Hidden: true, MaxArgs: -1,
				Short: "Not part of this version: " + l.feature,
				Setup: func(*term.Flags) term.Run {
					return func(context.Context, *term.Env) error {
						return fmt.Errorf("nomad %s: %s: not part of this version", name, l.feature)
					}
				}})
		}
	}
	return out
}
