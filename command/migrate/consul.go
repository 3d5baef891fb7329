package migrate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/command/term"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/admission"
	"github.com/open-nomad/open-nomad/nomad/consul"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Consul is what a cluster uses of Consul. Its jobs keep Consul, or their services become native.
type Consul struct {
	Nodes int // with Consul, without those that are down
	Jobs  []ConsulJob
}

// ConsulJob is a running job that uses Consul.
type ConsulJob struct {
	Job    string   // "namespace/id"
	Uses   []string // such as "services web, api", sorted by kind
	Keep   []string // what it needs in Consul and of the agents to keep it
	Native []string // what must change in its file to leave Consul; empty if nothing must
}

// served are the features of jobs that servers and clients with Consul support. Namespaces of Consul have no effect in the
// community edition of Nomad either.
var served = []string{"consul service", "consul namespace", "connect"}

// ofConsul returns what the cluster uses of Consul, nil if nothing.
func ofConsul(s *state.Snapshot) *Consul {
	out := &Consul{Jobs: []ConsulJob{}}
	for n := range s.Nodes(nil) {
		if n.Status != nomad.NodeStatusDown && consul.HasConsul(n) {
			out.Nodes++
		}
	}
	for j := range s.Jobs(nil) {
		if j.Stopped() || j.Status == nomad.JobStatusDead {
			continue
		}
		if of, uses := consulJob(j); uses {
			out.Jobs = append(out.Jobs, of)
		}
	}
	slices.SortFunc(out.Jobs, func(a, b ConsulJob) int { return strings.Compare(a.Job, b.Job) })
	if out.Nodes == 0 && len(out.Jobs) == 0 {
		return nil
	}
	return out
}

// needs collects what a job uses of Consul.
type needs struct {
	services, mesh, tasks, constraints []string
	agentToken, identities             bool
	unsigned                           bool // an identity without an algorithm
}

// consulJob returns what a job uses of Consul, and whether it uses anything.
func consulJob(j *nomad.Job) (ConsulJob, bool) {
	n := &needs{}
	n.constrained(j.Constraints)
	for _, g := range j.TaskGroups {
		n.constrained(g.Constraints)
		n.serviced(g.Services)
		for _, t := range g.Tasks {
			n.constrained(t.Constraints)
			n.serviced(t.Services)
			n.task(g, t)
		}
	}
	uses := n.uses()
	if len(uses) == 0 {
		return ConsulJob{}, false
	}
	return ConsulJob{Job: j.Namespace + "/" + j.ID, Uses: uses, Keep: n.keep(), Native: n.native(j)}, true
}

func (n *needs) serviced(list []*nomad.Service) {
	for _, s := range list {
		if s.Provider == nomad.ServiceProviderNomad {
			continue
		}
		n.services = append(n.services, s.Name)
		if s.Connect != nil {
			n.mesh = append(n.mesh, s.Name)
		}
		n.agentToken = n.agentToken || s.Identity == nil
		n.identity(s.Identity)
	}
}

// identity records an identity that logs in to Consul.
func (n *needs) identity(id *nomad.WorkloadIdentity) {
	if id != nil {
		n.identities, n.unsigned = true, n.unsigned || id.Alg == ""
	}
}

func (n *needs) task(g *nomad.TaskGroup, t *nomad.Task) {
	logsIn := false
	for _, id := range t.Identities {
		if strings.HasPrefix(id.Name, consul.TaskIdentityName("")) {
			logsIn = true
			n.identity(id)
		}
	}
	if g.Consul != nil || t.Consul != nil || logsIn {
		n.tasks = append(n.tasks, t.Name)
	}
}

// constrained records the constraints on attributes of Consul, without that which servers add.
func (n *needs) constrained(list []*nomad.Constraint) {
	for _, c := range list {
		if target := c.LTarget + c.RTarget; strings.Contains(target, "${attr.consul.") && c.LTarget != "${attr.consul.version}" {
			n.constraints = append(n.constraints, c.LTarget)
		}
	}
}

func (n *needs) uses() (out []string) {
	add := func(what string, names []string) {
		if len(names) > 0 {
			slices.Sort(names)
			out = append(out, what+" "+strings.Join(slices.Compact(names), ", "))
		}
	}
	add("services", n.services)
	add("the service mesh for", n.mesh)
	add("tokens for tasks", n.tasks)
	add("constraints", n.constraints)
	return out
}

func (n *needs) keep() (out []string) {
	if n.agentToken {
		out = append(out, "services without an identity are registered with the token of the agent, unless the servers have service_identity "+
			"when the file is registered again")
	}
	if n.identities {
		out = append(out, "its identities log in: the auth methods of Consul must read the keys of servers that stay")
	}
	if n.unsigned {
		out = append(out, "after the next rotation of the root key its identities are signed with EdDSA: register the file again before, "+
			"or add EdDSA to JWTSupportedAlgs of the auth methods")
	}
	if len(n.mesh) > 0 {
		out = append(out, "its nodes need docker with the image of Envoy, CNI plugins, and the program consul in PATH")
	}
	return out
}

func (n *needs) native(j *nomad.Job) (out []string) {
	for _, err := range admission.NativeFaults(j) {
		out = append(out, err.Error())
	}
	for _, c := range n.constraints {
		out = append(out, "remove the constraint on "+c)
	}
	return out
}

// consulSteps returns the steps of a cluster with jobs that use Consul.
func (r *Report) consulSteps() []Step {
	if r.Consul == nil || len(r.Consul.Jobs) == 0 {
		return nil
	}
	return []Step{{Text: fmt.Sprintf("Decide whether the services of %s stay in Consul. To keep Consul, add a consul block to the new servers "+
		"and clients: its address, the token of the agent, and on servers service_identity and task_identity if Consul has ACLs. Let the "+
		"auth methods of Consul read the keys of a server that stays. Without the block on any agent, set consul = \"nomad\" in the services "+
		"block of all new servers: then services become native when a file is registered again.", plural(len(r.Consul.Jobs), "job")),
		Commands: []string{
			"nomad setup consul -jwks-url=https://<server>:4646/.well-known/jwks.json # if Consul has ACLs and no auth method",
			"nomad job run <file>                # each, when all servers run open-nomad",
		}}}
}

// consulWidth is the length of the longest line about a job.
const consulWidth = textWidth - 8

// text lists the jobs that use Consul.
func (c *Consul) text(b *strings.Builder) {
	section(b, "Consul")
	fmt.Fprintf(b, "  %s with Consul. These jobs keep it, or change to leave it:\n", plural(c.Nodes, "node"))
	for _, j := range c.Jobs {
		fmt.Fprintf(b, "  * %s\n", term.Cell(j.Job))
		for _, part := range []struct {
			name  string
			lines []string
			none  string
		}{{"uses", j.Uses, ""}, {"keep", j.Keep, "nothing else"}, {"leave", j.Native, "register the file again"}} {
			lines := part.lines
			if len(lines) == 0 {
				lines = []string{part.none}
			}
			for i, line := range lines {
				name := part.name + ":"
				if i > 0 {
					name = ""
				}
				fmt.Fprintf(b, "      %-7s%s\n", name, strings.ReplaceAll(term.Wrap(term.Cell(line), consulWidth), "\n", "\n             "))
			}
		}
	}
	if len(c.Jobs) == 0 {
		b.WriteString("  None\n")
	}
}
