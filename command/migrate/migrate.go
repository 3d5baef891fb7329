// Package migrate reports what this version does not serve of a Nomad cluster, and the steps
// that replace its agents. It implements "nomad operator migrate -check".
//
//	archive of the state ──Read───▶ state ─┐
//	agent of the cluster ──Ask──▶ Cluster ─┼──New──▶ Report ──▶ Text, or JSON
//	its configuration, or files ──▶ Keys ──┘
//
// The archive comes from a file or from an agent. The package does not change the cluster
// or any file, and starts no goroutines.
//
// A finding is lost if running jobs or records need a feature that this version does not
// have. A driver that is not built in is reported but is not lost: external drivers of Nomad work. What jobs use of Consul is
// not lost either: Consul lists what it needs, and what must change to leave Consul. Stopped and dead jobs do not count.
package migrate

import (
	"slices"

	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/unserved"
)

// Finding is a feature in the state that this version does not serve.
type Finding struct {
	Name   string   // stable key, such as "periodic" or "driver docker"
	Count  int      // jobs, records or nodes with it
	Effect string   // a sentence about the effect, with the count
	Jobs   []string // "namespace/id" of the jobs that need it, sorted
	Lost   bool     // whether it is in use
}

// Key is a configuration key that this version rejects or ignores.
type Key struct {
	Place   string // the file and line, "" if unknown
	Key     string
	Effect  string
	Refused bool
}

// Input is the input of New.
type Input struct {
	State *state.Snapshot
	Index uint64
	// Cluster is nil if only a file was read.
	Cluster *Cluster
	Keys    []Key
}

// Report is the result of the check. Its JSON encoding is stable: fields are only added.
type Report struct {
	Index         uint64 // of the state
	Jobs          int
	ClientNodes   int
	Cluster       *Cluster // nil if only a file was read
	Features      []Finding
	Nodes         []Finding
	Unprivileged  *Unprivileged
	Consul        *Consul    // nil if no job and no node uses it
	Vault         []VaultJob `json:",omitempty"`
	PlainSecrets  []string   `json:",omitempty"` // CSI volumes whose secrets are stored in clear
	Configuration []Key      // nil if no configuration was read
	Steps         []Step
	// Lost reports whether this version does not serve something in use.
	Lost bool
}

// New compares the input with the features of this version.
func New(in Input) *Report {
	r := &Report{Index: in.Index, Cluster: in.Cluster, Features: []Finding{}, Configuration: in.Keys, Nodes: nodeFindings(in.State)}
	for range in.State.Jobs(nil) {
		r.Jobs++
	}
	for range in.State.Nodes(nil) {
		r.ClientNodes++
	}
	r.Consul, r.Vault = ofConsul(in.State), ofVault(in.State)
	for _, f := range unserved.List(in.State) {
		if slices.Contains(served, f.Name) || servedByVault(f.Name) {
			continue
		}
		r.Features = append(r.Features, Finding{Name: f.Name, Count: f.Count, Effect: f.Effect, Jobs: f.Jobs, Lost: true})
	}
	r.Features = append(r.Features, refusedOptions(in.State)...)
	r.Unprivileged, r.PlainSecrets = unprivileged(in.State), plainSecrets(in.State)
	r.Lost = r.lost()
	r.Steps = r.steps()
	return r
}

func (r *Report) lost() bool {
	for _, list := range [][]Finding{r.Features, r.Nodes} {
		for _, f := range list {
			if f.Lost {
				return true
			}
		}
	}
	for _, k := range r.Configuration {
		if k.Refused {
			return true
		}
	}
	return r.Cluster != nil && r.Cluster.Enterprise
}
