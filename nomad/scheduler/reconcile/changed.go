package reconcile

import (
	"reflect"

	"github.com/open-nomad/open-nomad/nomad"
)

// change classifies the difference between two versions of a group.
type change int

const (
	same        change = 0 // nothing differs
	harmless    change = 1 // tasks need no restart
	destructive change = 2 // tasks must be replaced
)

// differ compares versions of groups, each pair once: thousands of allocations share a few
// versions.
type differ struct {
	job  *nomad.Job
	seen map[differKey]change
}

type differKey struct {
	old   *nomad.Job
	group string
}

func newDiffer(job *nomad.Job) *differ {
	return &differ{job: job, seen: map[differKey]change{}}
}

// change returns how the job's current version affects an allocation of a group.
func (d *differ) change(a *nomad.Allocation, tg *nomad.TaskGroup) change {
	old := a.Job
	if old == d.job {
		return same
	}
	if old == nil {
		return destructive
	}
	sameVersion := old.Version == d.job.Version && old.CreateIndex == d.job.CreateIndex
	if sameVersion && old.JobModifyIndex == d.job.JobModifyIndex {
		return same
	}
	key := differKey{old, tg.Name}
	if c, ok := d.seen[key]; ok {
		return c
	}
	c := harmless
	was := old.TaskGroup(tg.Name)
	switch {
	case was == nil || GroupChanged(old, was, d.job, tg):
		c = destructive
	case sameVersion && SameSpec(old, d.job):
		c = same
	}
	d.seen[key] = c
	return c
}

// SameSpec reports whether two versions of a job differ only in fields that the servers set.
func SameSpec(a, b *nomad.Job) bool { return equal(specOf(a), specOf(b)) }

// specOf returns the job without the fields that the servers set.
func specOf(j *nomad.Job) nomad.Job {
	spec := *j
	spec.Status, spec.StatusDescription, spec.Stable, spec.VersionTag, spec.NomadTokenID = "", "", false, nil, ""
	spec.Registrant = nil
	spec.Version, spec.SubmitTime, spec.CreateIndex, spec.ModifyIndex, spec.JobModifyIndex = 0, 0, 0, 0, 0
	return spec
}

// GroupChanged reports whether an allocation of the old group must be replaced to run the new
// group.
func GroupChanged(oldJob *nomad.Job, was *nomad.TaskGroup, newJob *nomad.Job, is *nomad.TaskGroup) bool {
	if len(was.Tasks) != len(is.Tasks) || !equal(groupView(oldJob, was), groupView(newJob, is)) {
		return true
	}
	for _, t := range was.Tasks {
		other := is.Task(t.Name)
		if other == nil || !equal(taskView(oldJob, was, t), taskView(newJob, is, other)) {
			return true
		}
	}
	return false
}

// equal compares plain data. An empty slice or map equals nil. Numbers of different types are
// compared by value: driver configurations are untyped.
func equal[T any](a, b T) bool { return equalValues(reflect.ValueOf(a), reflect.ValueOf(b)) }

func equalValues(a, b reflect.Value) bool {
	if a.IsValid() != b.IsValid() {
		return false
	}
	if !a.IsValid() {
		return true
	}
	if a.Kind() != b.Kind() {
		return isNumber(a) && isNumber(b) && number(a) == number(b)
	}
	switch a.Kind() {
	case reflect.Pointer, reflect.Interface:
		if a.IsNil() || b.IsNil() {
			return a.IsNil() && b.IsNil()
		}
		return equalValues(a.Elem(), b.Elem())
	case reflect.Struct:
		for i := range a.NumField() {
			if !equalValues(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Slice, reflect.Array:
		if a.Len() != b.Len() {
			return false
		}
		for i := range a.Len() {
			if !equalValues(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Map:
		if a.Len() != b.Len() || a.Type().Key() != b.Type().Key() {
			return false
		}
		for it := a.MapRange(); it.Next(); {
			if other := b.MapIndex(it.Key()); !other.IsValid() || !equalValues(it.Value(), other) {
				return false
			}
		}
		return true
	}
	return a.Equal(b)
}

func isNumber(v reflect.Value) bool { return v.CanInt() || v.CanUint() || v.CanFloat() }

func number(v reflect.Value) float64 {
	switch {
	case v.CanInt():
		return float64(v.Int())
	case v.CanUint():
		return float64(v.Uint())
	}
	return v.Float()
}
