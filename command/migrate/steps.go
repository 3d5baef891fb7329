package migrate

import (
	"slices"
	"strings"
)

// Step is one step of the migration.
type Step struct {
	Text     string
	Commands []string
}

// steps returns the steps in order.
func (r *Report) steps() []Step {
	steps := slices.Concat(r.prepareCluster(), r.prepareJobs(), r.prepareAgents(), r.consulSteps(), r.vaultSteps())
	return append(append(append(steps, r.nodeStep(), relayStep, r.serverStep()), r.secretsOfVolumes()...), Step{
		Text: "Now you can use features that Nomad servers do not have, such as quotas. While a Nomad server is a " +
			"member, these requests fail with 409.",
		Commands: []string{
			"nomad server members -verbose   # each server has the tag project=open-nomad",
			"nomad operator autopilot health # each server is healthy",
		},
	})
}

// prepareCluster returns the steps before any change.
func (r *Report) prepareCluster() []Step {
	var steps []Step
	if c := r.Cluster; c != nil {
		if c.Enterprise {
			steps = append(steps, Step{Text: "Move from Nomad Enterprise to the community edition first: this " +
				"version was not tested with Enterprise servers and does not read their records."})
		}
		if other := c.untested(); len(other) > 0 {
			steps = append(steps, Step{Text: "Upgrade the servers to Nomad 2.0 first: no other release was tested, and these servers run " +
				strings.Join(other, ", ") + "."})
		}
	}
	return append(steps, Step{
		Text:     "Save the state with the nomad program that the servers run now. You need it to go back.",
		Commands: []string{"nomad operator snapshot save before.snap"},
	})
}

// prepareJobs returns the steps for features in use.
func (r *Report) prepareJobs() []Step {
	var steps []Step
	lost := slices.ContainsFunc(slices.Concat(r.Features, r.Nodes), func(f Finding) bool { return f.Lost })
	if lost {
		steps = append(steps, Step{Text: "Change or stop the jobs above, and delete the records above, while all " +
			"servers run Nomad. Repeat this check until it lists nothing that you need."})
	}
	return steps
}

// prepareAgents returns the steps for configuration and certificates.
func (r *Report) prepareAgents() []Step {
	text := "Write the configuration of the new agents, based on the old one"
	if slices.ContainsFunc(r.Configuration, func(k Key) bool { return k.Refused }) {
		text += ", without the rejected keys"
	}
	steps := append([]Step{{Text: text + ".", Commands: []string{"nomad config validate /etc/open-nomad.d"}}}, r.privilegeSteps()...)
	const cannot = "Nomad followers cannot schedule while an open-nomad server leads. Keep a Nomad server as leader " +
		"until it is the last one, or replace all servers at once"
	switch c := r.Cluster; {
	case c == nil || c.RPCTLS == "":
		steps = append(steps, Step{Text: "Give each new server a certificate for server.<region>.nomad if tls.rpc is on. If it is off, " +
			cannot + "."})
	case c.RPCTLS == "on":
		steps = append(steps, Step{Text: "Give each new server a certificate of the cluster's CA for server." + c.Region +
			".nomad. Nomad and open-nomad servers need it to schedule for each other."})
	default:
		steps = append(steps, Step{Text: "tls.rpc is off: " + cannot + "."})
	}
	return steps
}

func (r *Report) nodeStep() Step {
	return Step{
		Text: "Replace the client agents, one node after the other. Drain each node, then start the new agent with a new data directory.",
		Commands: []string{
			"nomad node drain -enable -yes <node>",
			"systemctl stop nomad                # the Nomad agent, on the node",
			"nomad agent -config=/etc/open-nomad.d  # open-nomad, with another data_dir: a new node",
			"nomad node status                   # the new node is ready, the old one is down",
		},
	}
}

// relayStep is about the tickets of this project, which clients of Nomad do not have.
var relayStep = Step{
	Text: "If access control is on and a client of Nomad remains, set this in the server block of each open-nomad " +
		"server before you start it. Without it, these servers refuse logs, exec, fs, stats, signal and restart with 409 for allocations " +
		"on clients of Nomad. With it, they send the callers' tokens to these clients, as Nomad does. Remove it " +
		"when the last client of Nomad has left.",
	Commands: []string{"relay_tokens_to_nodes = true  # in server { }, then restart the server if it runs"},
}

func (r *Report) serverStep() Step {
	return Step{
		Text: "Replace the servers, one after the other, the leader last: add an open-nomad server with an empty " +
			"data_dir, wait until it is a voter, then remove a Nomad server.",
		Commands: []string{
			"nomad agent -config=/etc/open-nomad.d  # with server.retry_join, without bootstrap_expect",
			"nomad operator raft list-peers      # the new server has Voter = true",
			"systemctl stop nomad                # the Nomad agent",
			"nomad server force-leave <name>     # if it is still listed as alive or failed",
			"nomad operator autopilot health     # all servers are healthy: continue with the next",
		},
	}
}
