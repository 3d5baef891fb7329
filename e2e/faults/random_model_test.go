//go:build linux && faults

package faults_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
)

// A want is what must become of a job.
type want struct {
	kind
	spec
	registered bool // it is not purged
	stopped    bool
	old        *spec // of the allocations beside a canary that waits for its promotion
	collected  bool  // a collection was forced while it was stopped or done
	calm       bool  // it was at rest since its last change
}

// A place is what was done to a machine.
type place struct {
	drained bool // and ineligible since
	frozen  bool // its agent does not run: the node is lost
	lost    bool // it was frozen, or without power, since the last rest
	scratch bool // it has a volume that no job uses
}

// A model knows what must hold at rest, by the pages of the documentation.
type model struct {
	jobs    []*want
	places  []*place
	ids     []string                     // of the nodes
	paused  map[string]map[string]string // by allocation and task: "pause" or "run"
	lineage map[string]string            // the data that moves, as last seen, by allocation
	starts  map[string]string            // the data of volumes, as last seen, by volume
	moved   map[string]bool              // allocations that were at rest: their data was moved, or was lost with a node
	claims  map[string][]string          // the claimed volumes of each job, at the last rest
}

// newModel returns the model of a cluster without jobs.
func newModel(ids []string) *model {
	m := &model{ids: ids, paused: map[string]map[string]string{},
		moved: map[string]bool{}, lineage: map[string]string{}, starts: map[string]string{}, claims: map[string][]string{}}
	for _, k := range kinds() {
		m.jobs = append(m.jobs, &want{kind: k, spec: spec{Count: k.counts[0]}})
	}
	for range ids {
		m.places = append(m.places, &place{})
	}
	return m
}

// job returns the job of an ID, nil if there is none.
func (m *model) job(id string) *want {
	for _, w := range m.jobs {
		if w.id == id {
			return w
		}
	}
	return nil
}

// fit returns the nodes that get allocations.
func (m *model) fit() []string {
	var out []string
	for i, p := range m.places {
		if !p.drained && !p.frozen {
			out = append(out, m.ids[i])
		}
	}
	return out
}

// runs reports whether an allocation must run and does, as far as the servers know.
func runs(a *api.Allocation) bool {
	return a.DesiredStatus == api.AllocDesiredStatusRun && a.ClientStatus == api.AllocClientStatusRunning
}

// over reports whether an allocation has ended, or its node is lost.
func over(a *api.Allocation) bool {
	switch a.ClientStatus {
	case api.AllocClientStatusComplete, api.AllocClientStatusFailed, api.AllocClientStatusLost, api.AllocClientStatusUnknown:
		return true
	}
	return false
}

// differences lists what is not as it must be at rest.
func (m *model) differences(v *view) []string {
	var d diff
	running := map[string]*api.Allocation{}
	of := map[string][]*api.Allocation{}
	for _, a := range v.allocs {
		switch {
		case runs(a):
			running[a.ID] = a
			of[a.JobID] = append(of[a.JobID], a)
			if !slices.Contains(m.fit(), a.NodeID) {
				d.add("%s runs on a node that is drained or lost", m.name(a))
			}
		case !over(a) && (a.DesiredStatus == api.AllocDesiredStatusRun || slices.Contains(m.fit(), a.NodeID)):
			d.add("%s is neither running nor over: %s, client %s", m.name(a), a.DesiredStatus, a.ClientStatus)
		}
	}
	for _, e := range v.evals {
		if e.Status == "pending" && e.WaitUntil.IsZero() || e.Status == "failed" {
			d.add("evaluation %s of %s (%s) is %s %s", e.ID, e.JobID, e.TriggeredBy, e.Status, e.StatusDescription)
		}
	}
	for _, w := range m.jobs {
		m.judgeJob(&d, w, of[w.id], v)
	}
	for _, id := range slices.Sorted(maps.Keys(v.machines)) {
		m.judgeMachine(&d, m.nodeName(id), v.machines[id], running, id)
	}
	m.judgeServices(&d, v, running)
	m.judgeClaims(&d, v)
	m.judgeVolumes(&d, v)
	m.judgeData(&d, v, running)
	return d
}

// A diff is a list of differences.
type diff []string

func (d *diff) add(format string, args ...any) { *d = append(*d, fmt.Sprintf(format, args...)) }

// equal adds a difference unless got is want.
func equal[T comparable](d *diff, what string, got, want T) {
	if got != want {
		d.add("%s: got %v, want %v", what, got, want)
	}
}

// judgeJob judges the allocations of a job, its deployment and its evaluations.
func (m *model) judgeJob(d *diff, w *want, running []*api.Allocation, v *view) {
	job := v.jobs[w.id]
	if job == nil && w.collected { // a job that is stopped or done may be removed, with its claims
		w.registered, m.claims[w.id] = false, nil
	}
	equal(d, w.id+" is registered", job != nil, w.registered)
	if !w.registered || job == nil {
		equal(d, "running allocations of "+w.id+", which does not exist", len(running), 0)
		return
	}
	equal(d, w.id+" is stopped", *job.Stop, w.stopped)
	if w.stopped {
		equal(d, "running allocations of "+w.id+", which is stopped", len(running), 0)
		equal(d, "status of "+w.id+", which is stopped", *job.Status, "dead")
		return
	}
	equal(d, w.id+" is dead", *job.Status == "dead", w.finishes)
	equal(d, "specification of "+w.id, specOf(job), w.spec)
	if w.finishes {
		judgeWork(d, w, v)
		return
	}
	least, most := m.number(w, v)
	names, canaries := map[string]int{}, 0
	for _, a := range running {
		got := specOf(a.Job)
		allowed := w.spec
		if w.old != nil && (a.DeploymentStatus == nil || !a.DeploymentStatus.Canary) {
			allowed = *w.old
		}
		if w.old != nil && a.DeploymentStatus != nil && a.DeploymentStatus.Canary {
			canaries++
		} else {
			names[cmp.Or(map[bool]string{true: a.NodeID}[w.typ == "system"], a.Name)]++
		}
		got.Count, allowed.Count = 0, 0 // a change of the count alone need not reach an allocation
		if w.deploys && w.Count-len(running) >= maxParallel {
			got.Rev, allowed.Rev = 0, 0 // what is lacking counts as replaced: no other allocation is
		}
		equal(d, "specification of "+m.name(a), got, allowed)
	}
	for name, n := range names {
		equal(d, "allocations of "+w.id+" with the name "+name, n, 1)
	}
	if n := len(names); n < least || n > most {
		d.add("running allocations of %s: got %d, want %d to %d", w.id, n, least, most)
	}
	if w.old != nil {
		equal(d, "canaries of "+w.id, canaries, 1)
	}
	m.judgeProgress(d, w, len(names), v)
}

// judgeWork judges a job whose tasks end: each allocation has done its work once.
func judgeWork(d *diff, w *want, v *view) {
	done, job := map[string]int{}, v.jobs[w.id]
	for _, a := range v.allocs {
		current := a.JobID == w.id && *a.Job.Version == *job.Version && *a.Job.CreateIndex == *job.CreateIndex
		if current && a.DesiredStatus == api.AllocDesiredStatusRun && a.ClientStatus == api.AllocClientStatusComplete {
			done[a.Name]++
		}
	}
	for i := range w.Count {
		name := fmt.Sprintf("%s.g[%d]", w.id, i)
		equal(d, "completed allocations of "+name, done[name], 1)
	}
}

// judgeVolumes judges the volumes: those that were made, ready unless their node is down, and no other directory.
func (m *model) judgeVolumes(d *diff, v *view) {
	for i, p := range m.places {
		need := []string{volumeName}
		if p.scratch {
			need = append(need, scratchName)
		}
		var got, ids []string
		for id, vol := range v.volumes {
			if vol.NodeID == m.ids[i] {
				got, ids = append(got, vol.Name), append(ids, id)
				node := v.nodes[vol.NodeID] // none if it was collected while it was down
				down := node == nil || node.Status == "down"
				equal(d, "volume "+vol.Name+" on "+m.nodeName(vol.NodeID)+" is ready", vol.State == "ready", !down)
			}
		}
		slices.Sort(got)
		slices.Sort(ids)
		equal(d, "volumes of "+m.nodeName(m.ids[i]), fmt.Sprint(got), fmt.Sprint(need))
		if machine := v.machines[m.ids[i]]; machine != nil {
			slices.Sort(machine.volumes)
			equal(d, "directories of volumes on "+m.nodeName(m.ids[i]), fmt.Sprint(machine.volumes), fmt.Sprint(ids))
		}
	}
}

// number returns how many allocations a job must have, beside a canary: least and most.
func (m *model) number(w *want, v *view) (least, most int) {
	count := w.Count
	if w.old != nil {
		count = w.old.Count
	}
	switch {
	case w.typ == "system":
		return len(m.fit()), len(m.fit())
	case w.distinct:
		n := min(count, len(m.fit()))
		return n, n
	case w.volume: // on the claimed volumes; a group that has claimed fewer may claim more
		claimed, fit := 0, 0
		for _, c := range v.claims {
			if vol := v.volumes[c.VolumeID]; c.JobID == w.id && vol != nil {
				claimed++
				if slices.Contains(m.fit(), vol.NodeID) {
					fit++
				}
			}
		}
		if claimed < count {
			return min(fit, count), count
		}
		return min(fit, count), min(fit, count)
	}
	return count, count
}

// judgeProgress judges the deployment of a job, and that something waits for what it lacks.
func (m *model) judgeProgress(d *diff, w *want, has int, v *view) {
	if has < w.Count && w.typ != "system" && w.old == nil {
		waits := slices.ContainsFunc(v.evals, func(e *api.Evaluation) bool {
			return e.JobID == w.id && (e.Status == "blocked" || e.Status == "pending")
		})
		equal(d, fmt.Sprintf("an evaluation waits for the allocations that %s lacks (%d of %d)", w.id, w.Count-has, w.Count), waits, true)
		return
	}
	dep := v.deployments[w.id]
	if !w.deploys || dep == nil || dep.JobVersion != *v.jobs[w.id].Version {
		return // a version that changes no allocation, for example a stop, has none
	}
	if w.old == nil {
		equal(d, "deployment of "+w.id, dep.Status, "successful")
		return
	}
	equal(d, "deployment of "+w.id+" beside the canary", dep.Status, "running")
	for group, s := range dep.TaskGroups {
		if s.HealthyAllocs < 1 { // those that were replaced count too
			d.add("%s.%s has no healthy canary: %+v", w.id, group, *s)
		}
	}
}

// judgeMachine judges what a machine has: all that running allocations need, once, and nothing else.
func (m *model) judgeMachine(d *diff, name string, v *machineView, running map[string]*api.Allocation, node string) {
	tasks, networks := map[string]int{}, map[string]int{}
	for id, a := range running {
		w := m.job(a.JobID)
		if a.NodeID != node || w == nil {
			continue
		}
		if w.bridge {
			networks[id] = 1
		}
		if v.dirs[id] == 0 {
			d.add("%s has no directory on %s", m.name(a), name)
		}
		for i := range w.tasks {
			key := id + " " + taskName(i)
			if m.pauses(a, taskName(i)) {
				continue
			}
			tasks[id]++
			equal(d, "processes of "+m.name(a)+" "+taskName(i), len(v.processes[key]), 1)
			equal(d, "revision of "+m.name(a)+" "+taskName(i), v.revision[key], specOf(a.Job).Rev)
		}
	}
	for key, pids := range v.processes {
		id, task, _ := strings.Cut(key, " ")
		if a := running[id]; a == nil || a.NodeID != node {
			d.add("%s runs task %s of allocation %s, which must not run: processes %v", name, task, id, pids)
		} else if m.pauses(a, task) {
			d.add("%s runs task %s of %s, which is paused: processes %v", name, task, m.name(a), pids)
		}
	}
	for what, got := range v.kept {
		need := networks
		if what == "control group" || what == "task of the supervisor" {
			need = tasks
		}
		for id := range got {
			if need[id] == 0 {
				d.add("%s has a %s for allocation %s, which does not need it", name, what, id)
			}
		}
		for id := range need {
			if got[id] == 0 {
				d.add("%s has no %s for %s", name, what, m.name(running[id]))
			}
		}
	}
	equal(d, "interfaces of allocations on "+name, v.links, len(networks))
	for _, path := range v.doubled {
		d.add("a task ran twice at a time: %s", path)
	}
}

// pauses reports whether a task of an allocation must not run now.
func (m *model) pauses(a *api.Allocation, task string) bool {
	switch m.paused[a.ID][task] {
	case "pause":
		return true
	case "run":
		return false
	}
	return task == taskName(0) && specOf(a.Job).Schedule == "off"
}

// judgeServices judges the registrations: one of each running allocation, in its version.
func (m *model) judgeServices(d *diff, v *view, running map[string]*api.Allocation) {
	got := map[string][]string{}
	for _, s := range v.services {
		got[s.AllocID] = append(got[s.AllocID], strings.Join(s.Tags, ","))
	}
	for id, a := range running {
		w := m.job(a.JobID)
		var need []string
		if !w.inTask || !m.pauses(a, taskName(0)) {
			need = []string{fmt.Sprintf("t%d", specOf(a.Job).Tag)}
		}
		if !slices.Equal(got[id], need) {
			d.add("registrations of %s: got %v, want %v", m.name(a), got[id], need)
		}
		delete(got, id)
	}
	for _, a := range v.allocs {
		if a.ClientStatus == api.AllocClientStatusUnknown && a.DesiredStatus == api.AllocDesiredStatusRun {
			equal(d, "registrations of "+m.name(a)+", which may still serve", len(got[a.ID]), 1)
			delete(got, a.ID)
		}
	}
	for id, tags := range got {
		d.add("a registration of allocation %s, which does not run: %v", id, tags)
	}
}

// judgeClaims judges the claims on volumes: they end when the job is purged, not before.
func (m *model) judgeClaims(d *diff, v *view) {
	got := map[string][]string{}
	for _, c := range v.claims {
		got[c.JobID] = append(got[c.JobID], c.VolumeID)
	}
	for _, w := range m.jobs {
		for _, id := range m.claims[w.id] {
			if w.registered && !slices.Contains(got[w.id], id) {
				d.add("%s has lost its claim on volume %s", w.id, id)
			}
		}
		if n := len(got[w.id]); n > w.Count || n > 0 && (!w.volume || !w.registered) {
			d.add("claims of %s: got %v", w.id, got[w.id])
		}
	}
	for _, a := range v.allocs {
		if w := m.job(a.JobID); w != nil && w.volume && runs(a) {
			claimed := slices.ContainsFunc(v.claims, func(c *api.TaskGroupHostVolumeClaim) bool {
				vol := v.volumes[c.VolumeID]
				return c.JobID == w.id && vol != nil && vol.NodeID == a.NodeID
			})
			equal(d, m.name(a)+" is on a claimed volume", claimed, true)
		}
	}
}

// judgeData judges the data of volumes, which only grows, and the data that moves with allocations.
func (m *model) judgeData(d *diff, v *view, running map[string]*api.Allocation) {
	for _, machine := range v.machines {
		for id, text := range machine.starts {
			if !strings.HasPrefix(text, m.starts[id]) {
				d.add("volume %s has lost data: got %q, want %q and more", id, text, m.starts[id])
			}
		}
		for id, text := range machine.lineage {
			a := running[id]
			if a == nil || !m.job(a.JobID).disk || m.pauses(a, taskName(0)) || m.moved[id] {
				continue
			}
			if !strings.Contains(text, id+"\n") {
				d.add("the data of %s has no line of its own: %q", m.name(a), text)
			}
			before := m.lineage[a.PreviousAllocation]
			if a.PreviousAllocation != "" && !strings.HasPrefix(text, before) && !m.lossy() {
				d.add("the data of %s was not moved: got %q, want %q and more", m.name(a), text, before)
			}
		}
	}
}

// lossy reports whether a node was lost since the last rest: data that moves is then not moved.
func (m *model) lossy() bool {
	return slices.ContainsFunc(m.places, func(p *place) bool { return p.lost })
}

// see remembers the data of tasks.
func (m *model) see(v *view) {
	for _, machine := range v.machines {
		for id, text := range machine.lineage {
			if len(text) > len(m.lineage[id]) {
				m.lineage[id] = text
			}
		}
		for id, text := range machine.starts {
			if len(text) > len(m.starts[id]) {
				m.starts[id] = text
			}
		}
	}
}

// rest notes that everything was as it must be.
func (m *model) rest(v *view) {
	m.see(v)
	for _, w := range m.jobs {
		w.calm = true
		m.claims[w.id] = nil
		for _, c := range v.claims {
			if c.JobID == w.id {
				m.claims[w.id] = append(m.claims[w.id], c.VolumeID)
			}
		}
	}
	for _, a := range v.allocs {
		m.moved[a.ID] = m.moved[a.ID] || runs(a) && !m.pauses(a, taskName(0))
	}
	for _, p := range m.places {
		p.lost = p.frozen
	}
}

// name describes an allocation.
func (m *model) name(a *api.Allocation) string {
	return fmt.Sprintf("%s (%s v%d on %s)", a.Name, a.ID[:8], *a.Job.Version, m.nodeName(a.NodeID))
}

func (m *model) nodeName(id string) string { return fmt.Sprintf("m%d", slices.Index(m.ids, id)+1) }
