package jobdiff

import (
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// The annotations of a diff: the effects of a change.
const (
	AnnotationForcesCreate            = "forces create"
	AnnotationForcesDestroy           = "forces destroy"
	AnnotationForcesInPlaceUpdate     = "forces in-place update"
	AnnotationForcesDestructiveUpdate = "forces create/destroy update"
)

// Keys of TaskGroupDiff.Updates.
const (
	UpdateTypeIgnore            = "ignore"
	UpdateTypeCreate            = "create"
	UpdateTypeDestroy           = "destroy"
	UpdateTypeMigrate           = "migrate"
	UpdateTypeCanary            = "canary"
	UpdateTypeInPlaceUpdate     = "in-place update"
	UpdateTypeDestructiveUpdate = "create/destroy update"
)

// inPlaceChanges are the fields and objects of a task that can change without a restart. Any other change
// creates a new task.
var inPlaceChanges = fieldSet("KillTimeout", "KillSignal", "ShutdownDelay", "Constraint", "Service",
	"RestartPolicy", "ScalingPolicies", "Action")

// Annotate adds the scheduler's actions to the diff.
func Annotate(d *message.JobDiff, a *nomad.PlanAnnotations) {
	for _, tg := range d.TaskGroups {
		if a != nil {
			annotateUpdates(tg, a.DesiredTGUpdates[tg.Name])
		}
		annotateCount(tg)
		for _, t := range tg.Tasks {
			annotateTask(t, tg.Type)
		}
	}
}

func annotateUpdates(d *message.TaskGroupDiff, u *nomad.DesiredUpdates) {
	if u == nil {
		return
	}
	for key, n := range map[string]uint64{
		UpdateTypeIgnore:            u.Ignore,
		UpdateTypeCreate:            u.Place,
		UpdateTypeDestroy:           u.Stop,
		UpdateTypeMigrate:           u.Migrate,
		UpdateTypeCanary:            u.Canary,
		UpdateTypeInPlaceUpdate:     u.InPlaceUpdate,
		UpdateTypeDestructiveUpdate: u.DestructiveUpdate,
	} {
		if n == 0 {
			continue
		}
		if d.Updates == nil {
			d.Updates = map[string]uint64{}
		}
		d.Updates[key] = n
	}
}

func annotateCount(d *message.TaskGroupDiff) {
	i := slices.IndexFunc(d.Fields, func(f *message.FieldDiff) bool { return f.Name == "Count" })
	if i < 0 {
		return
	}
	f := d.Fields[i]
	switch {
	case len(f.New) > len(f.Old), len(f.New) == len(f.Old) && f.New > f.Old:
		f.Annotations = append(f.Annotations, AnnotationForcesCreate)
	default:
		f.Annotations = append(f.Annotations, AnnotationForcesDestroy)
	}
}

func annotateTask(d *message.TaskDiff, group message.DiffType) {
	switch {
	case d.Type == message.DiffTypeNone:
	case group == message.DiffTypeAdded || group == message.DiffTypeNone && d.Type == message.DiffTypeAdded:
		d.Annotations = append(d.Annotations, AnnotationForcesCreate)
	case group == message.DiffTypeDeleted:
		d.Annotations = append(d.Annotations, AnnotationForcesDestroy)
	case d.Type == message.DiffTypeEdited && isInPlace(d):
		d.Annotations = append(d.Annotations, AnnotationForcesInPlaceUpdate)
	default:
		d.Annotations = append(d.Annotations, AnnotationForcesDestructiveUpdate)
	}
}

func isInPlace(d *message.TaskDiff) bool {
	return !slices.ContainsFunc(d.Fields, func(f *message.FieldDiff) bool { return !inPlaceChanges[f.Name] }) &&
		!slices.ContainsFunc(d.Objects, func(o *message.ObjectDiff) bool { return !inPlaceChanges[o.Name] })
}
