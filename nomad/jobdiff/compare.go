// Package jobdiff compares two versions of a job. Compare returns the fields and blocks that differ, and Annotate adds the
// scheduler's actions to the result. The result has the form that "nomad job plan" and "nomad job history -p" print.
//
// It reads both jobs by reflection: a new field of a job needs no code here. It never changes a job.
package jobdiff

import (
	"cmp"
	"maps"
	"reflect"
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// Fields that the servers write, or that a diff shows elsewhere.
var (
	jobDiffSkips = fieldSet("ID", "Status", "StatusDescription", "Version", "Stable", "SubmitTime", "CreateIndex",
		"ModifyIndex", "JobModifyIndex", "NomadTokenID", "VersionTag", "Registrant", "TaskGroups", "Update")
	groupDiffSkips = fieldSet("Name", "Tasks")
	taskDiffSkips  = fieldSet("Name", "RestartPolicy")
)

// objectSkips are the fields that objects of a diff do not have, as in Nomad. The objects are named by their field.
var objectSkips = map[string]map[string]bool{"Update": fieldSet("Stagger"), "Networks": fieldSet("MBits")}

// emptyFields are the fields of objects that a diff contains as context even if they are empty, as in Nomad.
var emptyFields = map[string][]string{
	"Identity":   {"ChangeMode", "Filepath", "ServiceName"},
	"Identities": {"ChangeMode", "Filepath", "ServiceName"},
	"Services":   {"Address", "Kind", "TaskName"},
	"Templates":  {"ChangeSignal", "SourcePath"},
	"Vault":      {"ChangeSignal", "Namespace", "Role"},
}

func fieldSet(names ...string) map[string]bool {
	out := map[string]bool{}
	for _, n := range names {
		out[n] = true
	}
	return out
}

// Compare returns the differences between two versions of a job. If one of them is nil, everything was added or
// deleted.
func Compare(old, new *nomad.Job) *message.JobDiff {
	d := &message.JobDiff{Type: diffType(old == nil, new == nil)}
	was, is := orNew(old), orNew(new)
	d.ID = cmp.Or(is.ID, was.ID)
	d.Fields, d.Objects = diffFields(reflect.ValueOf(*was), reflect.ValueOf(*is), d.Type, jobDiffSkips)
	oldGroups := byName(was.TaskGroups, func(g *nomad.TaskGroup) string { return g.Name })
	newGroups := byName(is.TaskGroups, func(g *nomad.TaskGroup) string { return g.Name })
	for _, name := range unionKeys(oldGroups, newGroups) {
		d.TaskGroups = append(d.TaskGroups, diffGroup(name, oldGroups[name], newGroups[name]))
	}
	changed := len(d.Fields)+len(d.Objects) > 0 ||
		slices.ContainsFunc(d.TaskGroups, func(g *message.TaskGroupDiff) bool { return g.Type != message.DiffTypeNone })
	d.Type = settle(d.Type, changed)
	return d
}

func diffGroup(name string, old, new *nomad.TaskGroup) *message.TaskGroupDiff {
	d := &message.TaskGroupDiff{Name: name, Type: diffType(old == nil, new == nil)}
	was, is := orNew(old), orNew(new)
	d.Fields, d.Objects = diffFields(reflect.ValueOf(*was), reflect.ValueOf(*is), d.Type, groupDiffSkips)
	oldTasks := byName(was.Tasks, func(t *nomad.Task) string { return t.Name })
	newTasks := byName(is.Tasks, func(t *nomad.Task) string { return t.Name })
	for _, name := range unionKeys(oldTasks, newTasks) {
		d.Tasks = append(d.Tasks, diffTask(name, oldTasks[name], newTasks[name]))
	}
	changed := len(d.Fields)+len(d.Objects) > 0 ||
		slices.ContainsFunc(d.Tasks, func(t *message.TaskDiff) bool { return t.Type != message.DiffTypeNone })
	d.Type = settle(d.Type, changed)
	return d
}

func diffTask(name string, old, new *nomad.Task) *message.TaskDiff {
	d := &message.TaskDiff{Name: name, Type: diffType(old == nil, new == nil)}
	d.Fields, d.Objects = diffFields(reflect.ValueOf(*orNew(old)), reflect.ValueOf(*orNew(new)), d.Type, taskDiffSkips)
	d.Type = settle(d.Type, len(d.Fields)+len(d.Objects) > 0)
	return d
}

// diffType returns Added or Deleted if one side is absent, and None otherwise.
func diffType(noOld, noNew bool) message.DiffType {
	switch {
	case noOld && !noNew:
		return message.DiffTypeAdded
	case noNew && !noOld:
		return message.DiffTypeDeleted
	}
	return message.DiffTypeNone
}

// settle returns Edited instead of None if a nested value changed.
func settle(t message.DiffType, changed bool) message.DiffType {
	if t == message.DiffTypeNone && changed {
		return message.DiffTypeEdited
	}
	return t
}

func orNew[T any](p *T) *T {
	if p == nil {
		return new(T)
	}
	return p
}

func byName[T any](list []T, name func(T) string) map[string]T {
	out := make(map[string]T, len(list))
	for _, v := range list {
		out[name(v)] = v
	}
	return out
}

func unionKeys[T any](a, b map[string]T) []string {
	all := map[string]bool{}
	for k := range a {
		all[k] = true
	}
	for k := range b {
		all[k] = true
	}
	return slices.Sorted(maps.Keys(all))
}
