// Package migrate reports what a cluster of Nomad would lose with this version, and the order
// of the steps that replace its agents: what "nomad operator migrate -check" prints.
//
//	archive of the state ──Read──▶ state ─┐
//	agent of the cluster ──Ask──▶ Cluster ─┼──New──▶ Report ──▶ Text, or JSON
//	configuration of the agents ──▶ Keys ─┘
//
// An archive from a file and one from an agent take the same way. The package changes
// nothing: neither the cluster nor a file. It starts no goroutine.
//
// A finding counts as lost if jobs or records need what this version lacks. A driver that no
// job names is reported, and is not a loss. Jobs that are stopped or dead need nothing.
package migrate

import (
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/unserved"
)

// Finding is something in the state that this version does not serve.
type Finding struct {
	Name   string   // stable key, such as "periodic" or "driver docker"
	Count  int      // jobs, records or nodes that have it
	Effect string   // a sentence about the consequences, with the count
	Jobs   []string // "namespace/id" of the jobs that need it, sorted
	Lost   bool     // whether something that is in use now would not be served
}

// Key is a key of configuration files that this version refuses or ignores.
type Key struct {
	Place   string // the file and the line, "" if there is none
	Key     string
	Effect  string
	Refused bool
}

// Input is what a Report is made of.
type Input struct {
	State *state.Snapshot
	Index uint64
	// Cluster is nil when only a file was given.
	Cluster *Cluster
	Keys    []Key
}

// Report is the answer of the check. Its JSON form is stable: fields may be added.
type Report struct {
	Index         uint64 // of the state
	Jobs          int
	ClientNodes   int
	Cluster       *Cluster // null when only a file was given
	Features      []Finding
	Nodes         []Finding
	Configuration []Key // null when no files were given
	Steps         []Step
	// Lost reports whether this version would not serve something that is in use.
	Lost bool
}

// New compares the input with what this version serves.
func New(in Input) *Report {
	r := &Report{Index: in.Index, Cluster: in.Cluster, Features: []Finding{}, Configuration: in.Keys, Nodes: nodeFindings(in.State)}
	for range in.State.Jobs(nil) {
		r.Jobs++
	}
	for range in.State.Nodes(nil) {
		r.ClientNodes++
	}
	for _, f := range unserved.List(in.State) {
		r.Features = append(r.Features, Finding{Name: f.Name, Count: f.Count, Effect: f.Effect, Jobs: f.Jobs, Lost: true})
	}
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
