package artifact

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/open-nomad/open-nomad/nomad"
)

// Reach is what decides which servers a task can download from. Artifacts of the cache are shared only between tasks
// with the same Reach.
type Reach struct {
	Namespace string
	Driver    string // confines the program, or lets the client do it
	Ports     any    // value of network in the task's config: the TCP ports of exec2
	Mode      string // of the group's network
	Isolate   bool
	Egress    *nomad.NetworkEgress
	CNI       *nomad.CNIConfig
	// Job and Group are empty unless a CNI configuration of the operator makes the network. Its plugins know both.
	Job, Group string
}

// ReachOf returns the Reach of a task.
func ReachOf(a *nomad.Allocation, t *nomad.Task) Reach {
	r := Reach{Namespace: a.Namespace, Driver: t.Driver, Ports: t.Config["network"]}
	var group *nomad.TaskGroup
	if a.Job != nil {
		group = a.Job.TaskGroup(a.TaskGroup)
	}
	if group == nil {
		return r
	}
	r.Mode = group.NetworkMode()
	if strings.HasPrefix(r.Mode, nomad.NetworkModeCNI) {
		r.Job, r.Group = a.JobID, a.TaskGroup
	}
	if len(group.Networks) > 0 {
		n := group.Networks[0]
		r.Isolate, r.Egress, r.CNI = n.Isolate, n.Egress, n.CNI
	}
	return r
}

// key identifies the artifact in the cache. It is "" if it must not be cached: without a checksum, or with
// one from a list that is downloaded. It contains everything that a job needs to obtain the artifact, and what the
// job can reach, so that the cache gives an artifact only to jobs that could download it.
func (j *job) key() string {
	if j.Fetcher.cache == nil || j.checksum == nil || j.checksum.Type == "file" {
		return ""
	}
	signed := ""
	if j.signer != nil {
		signed = j.signer.String() + " " + j.signed.URL()
	}
	text, err := json.Marshal([]any{j.source.URL(), j.artifact.GetterHeaders, j.mode, j.artifact.GetterInsecure, j.checksum.String(), signed,
		j.task.Reach})
	if err != nil {
		return "" // a value of the config that JSON does not have
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
