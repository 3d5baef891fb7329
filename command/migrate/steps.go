package migrate

import (
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/nomad/unserved"
)

// Step is one step of the migration.
type Step struct {
	Text     string
	Commands []string
}

// stopping are the findings whose commands in the Raft log stop a server of this version.
var stopping = []string{"service", "service registrations", "volume csi", "csi volumes", "csi plugins", "csi_plugin", "dynamic host volumes", "scaling", "scaling policies",
	"scaling event records", "update canary", "update auto_promote", unserved.VersionTag}

// steps returns the steps in order.
func (r *Report) steps() []Step {
	steps := slices.Concat(r.prepareCluster(), r.prepareJobs(), r.prepareAgents())
	return append(steps, r.nodeStep(), r.serverStep(), Step{
		Text: "Only now use what servers of Nomad lack, such as quotas: while one of them is a member, they are refused with 409.",
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
			steps = append(steps, Step{Text: "Move from Nomad Enterprise to the community edition first: this version was not tested with Enterprise servers, and reads none of their own records."})
		}
		if other := c.untested(); len(other) > 0 {
			steps = append(steps, Step{Text: "Upgrade the servers to Nomad 2.0 first: this version was tested with no other release, and these have " + strings.Join(other, ", ") + "."})
		}
	}
	return append(steps, Step{
		Text:     "Save the state with the nomad program that the servers run now. It is the way back.",
		Commands: []string{"nomad operator snapshot save before.snap"},
	})
}

// prepareJobs returns the steps for features in use.
func (r *Report) prepareJobs() []Step {
	var steps []Step
	lost := slices.ContainsFunc(slices.Concat(r.Features, r.Nodes), func(f Finding) bool { return f.Lost })
	if lost {
		steps = append(steps, Step{Text: "Change or stop the jobs above, and delete the records above, while all servers run Nomad. Run this check again until nothing is listed that you need."})
	}
	var stop []string
	for _, f := range r.Features {
		if slices.Contains(stopping, f.Name) {
			stop = append(stop, f.Name)
		}
	}
	if len(stop) > 0 {
		steps = append(steps, Step{Text: "Let no server of open-nomad join before these are out of use: " + strings.Join(stop, ", ") +
			". Their commands in the Raft log stop each server of open-nomad. Its error has the number, the name and the index of the command."})
	}
	return steps
}

// prepareAgents returns the steps for configuration and certificates.
func (r *Report) prepareAgents() []Step {
	text := "Write the configuration of the new agents from that of the old ones"
	if slices.ContainsFunc(r.Configuration, func(k Key) bool { return k.Refused }) {
		text += ", without the keys that are refused"
	}
	steps := []Step{{Text: text + ".", Commands: []string{"nomad config validate /etc/open-nomad.d"}}}
	const cannot = "followers that run Nomad cannot schedule while a server of open-nomad leads. Keep a server of Nomad as leader until it is the last one, or replace all servers in one go"
	switch c := r.Cluster; {
	case c == nil || c.RPCTLS == "":
		steps = append(steps, Step{Text: "Give each new server a certificate for server.<region>.nomad if tls.rpc is on. If it is off, " + cannot + "."})
	case c.RPCTLS == "on":
		steps = append(steps, Step{Text: "Give each new server a certificate of the cluster's CA for server." + c.Region + ".nomad: by it servers of Nomad and of open-nomad schedule for each other."})
	default:
		steps = append(steps, Step{Text: "tls.rpc is off: " + cannot + "."})
	}
	if c := r.Cluster; c != nil && c.ourLeader() != "" {
		steps = append(steps, Step{
			Text:     c.ourLeader() + " runs open-nomad and leads. Make a server of Nomad the leader again: only its leader drains nodes.",
			Commands: []string{"nomad operator raft list-peers", "nomad operator raft transfer-leadership -peer-id=<ID of a server of Nomad>"},
		})
	}
	return steps
}

func (r *Report) nodeStep() Step {
	return Step{
		Text: "Replace the client agents, one node after the other, while a server of Nomad leads: servers of open-nomad start no drain. Use the old nomad program for the drain, and a new data directory for the new agent.",
		Commands: []string{
			"nomad node drain -enable -yes <node>",
			"systemctl stop nomad                # the agent of Nomad, on the node",
			"nomad agent -config=/etc/open-nomad.d  # open-nomad, with another data_dir: a new node",
			"nomad node status                   # the new node is ready, the old one is down",
		},
	}
}

func (r *Report) serverStep() Step {
	return Step{
		Text: "Replace the servers, one after the other, the leader last: add one of open-nomad with an empty data_dir, wait until it votes, then remove one of Nomad.",
		Commands: []string{
			"nomad agent -config=/etc/open-nomad.d  # with server.retry_join, without bootstrap_expect",
			"nomad operator raft list-peers      # the new server has Voter = true",
			"systemctl stop nomad                # the agent of Nomad",
			"nomad server force-leave <name>     # unless it left by itself",
			"nomad operator autopilot health     # all servers are healthy: go on with the next",
		},
	}
}
