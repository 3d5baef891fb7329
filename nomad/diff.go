package nomad

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
)

// The types of a diff.
const (
	DiffTypeNone    DiffType = "None"
	DiffTypeAdded   DiffType = "Added"
	DiffTypeDeleted DiffType = "Deleted"
	DiffTypeEdited  DiffType = "Edited"
)

// DiffType is None, Added, Deleted or Edited.
type DiffType string

// FieldDiff is the difference of one value, with both values as strings.
type FieldDiff struct {
	Type        DiffType
	Name        string
	Old         string
	New         string
	Annotations []string
}

// JobDiff is the difference between two versions of a job.
type JobDiff struct {
	Type       DiffType
	ID         string
	Fields     []*FieldDiff
	Objects    []*ObjectDiff
	TaskGroups []*TaskGroupDiff
}

// ObjectDiff is the difference of one block.
type ObjectDiff struct {
	Type    DiffType
	Name    string
	Fields  []*FieldDiff
	Objects []*ObjectDiff
}

// TaskDiff is the difference of a task. Annotations describe the effects of the change.
type TaskDiff struct {
	Type        DiffType
	Name        string
	Fields      []*FieldDiff
	Objects     []*ObjectDiff
	Annotations []string
}

// TaskGroupDiff is the difference of a group. Updates counts the affected allocations by kind of update.
type TaskGroupDiff struct {
	Type    DiffType
	Name    string
	Fields  []*FieldDiff
	Objects []*ObjectDiff
	Tasks   []*TaskDiff
	Updates map[string]uint64
}

// Fields that the servers write, or that a diff shows elsewhere.
var (
	jobDiffSkips = fieldSet("ID", "Status", "StatusDescription", "Version", "Stable", "SubmitTime", "CreateIndex",
		"ModifyIndex", "JobModifyIndex", "NomadTokenID", "VersionTag", "Dispatched", "TaskGroups", "Update")
	groupDiffSkips = fieldSet("Name", "Tasks")
	taskDiffSkips  = fieldSet("Name")
)

func fieldSet(names ...string) map[string]bool {
	out := map[string]bool{}
	for _, n := range names {
		out[n] = true
	}
	return out
}

// Diff returns the differences between two versions of a job. If one of them is nil, everything was added or
// deleted.
func Diff(old, new *Job) *JobDiff {
	d := &JobDiff{Type: diffType(old == nil, new == nil)}
	was, is := orNew(old), orNew(new)
	d.ID = cmp.Or(is.ID, was.ID)
	d.Fields, d.Objects = diffFields(reflect.ValueOf(*was), reflect.ValueOf(*is), d.Type, jobDiffSkips)
	oldGroups := byName(was.TaskGroups, func(g *TaskGroup) string { return g.Name })
	newGroups := byName(is.TaskGroups, func(g *TaskGroup) string { return g.Name })
	for _, name := range unionKeys(oldGroups, newGroups) {
		d.TaskGroups = append(d.TaskGroups, diffGroup(name, oldGroups[name], newGroups[name]))
	}
	changed := len(d.Fields)+len(d.Objects) > 0 ||
		slices.ContainsFunc(d.TaskGroups, func(g *TaskGroupDiff) bool { return g.Type != DiffTypeNone })
	d.Type = settle(d.Type, changed)
	return d
}

func diffGroup(name string, old, new *TaskGroup) *TaskGroupDiff {
	d := &TaskGroupDiff{Name: name, Type: diffType(old == nil, new == nil)}
	was, is := orNew(old), orNew(new)
	d.Fields, d.Objects = diffFields(reflect.ValueOf(*was), reflect.ValueOf(*is), d.Type, groupDiffSkips)
	oldTasks := byName(was.Tasks, func(t *Task) string { return t.Name })
	newTasks := byName(is.Tasks, func(t *Task) string { return t.Name })
	for _, name := range unionKeys(oldTasks, newTasks) {
		d.Tasks = append(d.Tasks, diffTask(name, oldTasks[name], newTasks[name]))
	}
	changed := len(d.Fields)+len(d.Objects) > 0 ||
		slices.ContainsFunc(d.Tasks, func(t *TaskDiff) bool { return t.Type != DiffTypeNone })
	d.Type = settle(d.Type, changed)
	return d
}

func diffTask(name string, old, new *Task) *TaskDiff {
	d := &TaskDiff{Name: name, Type: diffType(old == nil, new == nil)}
	d.Fields, d.Objects = diffFields(reflect.ValueOf(*orNew(old)), reflect.ValueOf(*orNew(new)), d.Type, taskDiffSkips)
	d.Type = settle(d.Type, len(d.Fields)+len(d.Objects) > 0)
	return d
}

// diffType returns Added or Deleted if one side is absent, and None otherwise.
func diffType(noOld, noNew bool) DiffType {
	switch {
	case noOld && !noNew:
		return DiffTypeAdded
	case noNew && !noOld:
		return DiffTypeDeleted
	}
	return DiffTypeNone
}

// settle returns Edited instead of None if a nested value changed.
func settle(t DiffType, changed bool) DiffType {
	if t == DiffTypeNone && changed {
		return DiffTypeEdited
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
