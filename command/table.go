package command

import (
	"context"
	"fmt"
	"slices"

	"github.com/open-nomad/open-nomad/command/agent"
	"github.com/open-nomad/open-nomad/command/alloc"
	"github.com/open-nomad/open-nomad/command/deployment"
	"github.com/open-nomad/open-nomad/command/eval"
	"github.com/open-nomad/open-nomad/command/job"
	"github.com/open-nomad/open-nomad/command/node"
	"github.com/open-nomad/open-nomad/command/operator"
	"github.com/open-nomad/open-nomad/command/term"
	"github.com/open-nomad/open-nomad/internal/version"
)

// commands is the table of every command.
func commands() []term.Command {
	return slices.Concat(
		[]term.Command{agent.Command(), versionCommand(), fmtCommand(), statusCommand()},
		job.Commands(), alloc.Commands(), node.Commands(), eval.Commands(), deployment.Commands(), operator.Commands(),
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
		{"access control lists", "acl policy list|acl policy apply|acl token create|acl token list|acl token self|acl bootstrap|acl role list|login"},
		{"variables", "var get|var put|var list|var purge|var init|var lock"},
		{"service discovery", "service list|service info|service delete"},
		{"volumes", "volume status|volume create|volume register|volume delete|volume deregister|volume init"},
		{"namespace administration", "namespace apply|namespace delete|namespace inspect|namespace status"},
		{"exec", "alloc exec|exec|job action|action"},
		{"health checks", "alloc checks"},
		{"scaling", "job scale|job scaling-events|scaling policy list|scaling policy info"},
		{"job revert", "job revert"},
		{"job version tags", "job tag apply|job tag unset"},
		{"periodic jobs", "job periodic force"},
		{"canary deployments", "job promote|deployment promote"},
		{"deployment pauses", "deployment pause|deployment resume"},
		{"raft administration", "operator raft list-peers|operator raft remove-peer|operator raft transfer-leadership|operator raft info|operator raft logs|operator raft state"},
		{"autopilot", "operator autopilot get-config|operator autopilot set-config|operator autopilot health"},
		{"gossip", "operator gossip keyring list|operator gossip keyring install|operator gossip keyring use|operator gossip keyring remove|operator gossip keyring generate|server join|server force-leave"},
		{"root key rotation", "operator root keyring rotate|operator root keyring remove"},
		{"debug bundles", "operator debug"},
		{"client introduction tokens", "node intro create"},
		{"node metadata changes", "node meta apply|node meta read"},
		{"log monitoring", "monitor"},
		{"TLS", "tls ca create|tls ca info|tls cert create|tls cert info"},
		{"the web UI", "ui"},
		{"plugins", "plugin status"},
		{"setup of Consul and Vault", "setup consul|setup vault"},
	} {
		for _, name := range split(l.names) {
			out = append(out, term.Command{Name: name, Local: true, MaxArgs: -1,
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
