package jobdiff_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/jobdiff"
	"github.com/open-nomad/open-nomad/nomad/message"
)

func diffJob() *nomad.Job {
	return &nomad.Job{
		ID: "j", Name: "j", Type: "service", Priority: 50, Datacenters: []string{"dc1"}, Meta: map[string]string{"a": "1"},
		Version: 1, ModifyIndex: 10,
		TaskGroups: []*nomad.TaskGroup{{
			Name: "g", Count: 1,
			RestartPolicy: &nomad.RestartPolicy{Attempts: 2, Delay: time.Second},
			Volumes:       map[string]*nomad.VolumeRequest{"v": {Name: "v", Type: "host", Source: "a"}},
			Networks:      nomad.Networks{{Mode: "host", ReservedPorts: []nomad.Port{{Label: "http", Value: 80}}}},
			Tasks: []*nomad.Task{{
				Name: "t", Driver: "raw_exec",
				Config:    map[string]any{"command": "a", "args": []any{"x", "y"}, "n": int64(1), "m": map[string]any{"k": "v"}},
				Resources: &nomad.Resources{CPU: 100, MemoryMB: 64},
				Services:  []*nomad.Service{{Name: "s1", PortLabel: "http"}},
			}},
		}},
	}
}

// show prints a diff without the unchanged fields of objects.
func show(d *message.JobDiff) string {
	var b strings.Builder
	field := func(indent string, f *message.FieldDiff) {
		fmt.Fprintf(&b, "%s%s %s: %q => %q %s\n", indent, f.Type, f.Name, f.Old, f.New, strings.Join(f.Annotations, ","))
	}
	var object func(indent string, o *message.ObjectDiff)
	object = func(indent string, o *message.ObjectDiff) {
		fmt.Fprintf(&b, "%s%s {%s}\n", indent, o.Type, o.Name)
		for _, f := range o.Fields {
			if f.Type != message.DiffTypeNone {
				field(indent+" ", f)
			}
		}
		for _, sub := range o.Objects {
			object(indent+" ", sub)
		}
	}
	section := func(indent string, fields []*message.FieldDiff, objects []*message.ObjectDiff) {
		for _, f := range fields {
			field(indent, f)
		}
		for _, o := range objects {
			object(indent, o)
		}
	}
	fmt.Fprintf(&b, "%s job %s\n", d.Type, d.ID)
	section(" ", d.Fields, d.Objects)
	for _, tg := range d.TaskGroups {
		fmt.Fprintf(&b, " %s group %s %v\n", tg.Type, tg.Name, tg.Updates)
		section("  ", tg.Fields, tg.Objects)
		for _, t := range tg.Tasks {
			fmt.Fprintf(&b, "  %s task %s %s\n", t.Type, t.Name, strings.Join(t.Annotations, ","))
			section("   ", t.Fields, t.Objects)
		}
	}
	return b.String()
}

func TestDiff(t *testing.T) {
	cases := []struct {
		name string
		edit func(*nomad.Job)
		want string
	}{
		{"nothing", func(j *nomad.Job) { j.Version, j.ModifyIndex = 2, 99 }, `
None job j
 None group g map[]
  None task t `},
		{"numbers of another type", func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].Config["n"] = 1.0 }, `
None job j
 None group g map[]
  None task t `},
		{"a secret block", func(j *nomad.Job) {
			j.TaskGroups[0].Tasks[0].Secrets = []*nomad.Secret{{Name: "s", Provider: "vault", Path: "p", Config: map[string]any{"engine": "kv"},
				Env: map[string]string{"A": "b"}}}
		}, `
Edited job j
 Edited group g map[]
  Edited task t forces create/destroy update
   Added {Secret}
    Added Config[engine]: "" => "kv" 
    Added Env[A]: "" => "b" 
    Added Name: "" => "s" 
    Added Path: "" => "p" 
    Added Provider: "" => "vault" 
`},
		{"scalars and maps", func(j *nomad.Job) {
			j.Priority = 60
			j.Meta = map[string]string{"b": "2"}
			j.Datacenters = []string{"dc1", "dc2"}
			j.Region = "eu"
		}, `
Edited job j
 Deleted Meta[a]: "1" => "" 
 Added Meta[b]: "" => "2" 
 Edited Priority: "50" => "60" 
 Added Region: "" => "eu" 
 Edited {Datacenters}
  Added Datacenters: "" => "dc2" 
 None group g map[]
  None task t `},
		{"nested", func(j *nomad.Job) {
			tg := j.TaskGroups[0]
			tg.Count = 10
			tg.RestartPolicy.Delay = 2 * time.Second
			tg.Volumes["v"].Source = "b"
			tg.Networks[0].ReservedPorts[0].Value = 81
			tg.Constraints = []*nomad.Constraint{{LTarget: "${attr.kernel.name}", RTarget: "linux", Operand: "="}}
		}, `
Edited job j
 Edited group g map[]
  Edited Count: "1" => "10" forces create
  Added {Constraint}
   Added LTarget: "" => "${attr.kernel.name}" 
   Added Operand: "" => "=" 
   Added RTarget: "" => "linux" 
  Deleted {Network}
   Deleted Mode: "host" => "" 
   Deleted {Static Port}
    Deleted IgnoreCollision: "false" => "" 
    Deleted Label: "http" => "" 
    Deleted To: "0" => "" 
    Deleted Value: "80" => "" 
  Added {Network}
   Added Mode: "" => "host" 
   Added {Static Port}
    Added IgnoreCollision: "" => "false" 
    Added Label: "" => "http" 
    Added To: "" => "0" 
    Added Value: "" => "81" 
  Edited {RestartPolicy}
   Edited Delay: "1000000000" => "2000000000" 
  Edited {Volume}
   Edited Source: "a" => "b" 
  None task t `},
		{"task config", func(j *nomad.Job) {
			j.TaskGroups[0].Tasks[0].Config = map[string]any{"command": "b", "args": []any{"x"}, "n": int64(1), "m": map[string]any{"k": "w"}}
		}, `
Edited job j
 Edited group g map[]
  Edited task t forces create/destroy update
   Edited {Config}
    Deleted args[1]: "y" => "" 
    Edited command: "a" => "b" 
    Edited m[k]: "v" => "w" `},
		{"service", func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].Services[0].PortLabel = "x" }, `
Edited job j
 Edited group g map[]
  Edited task t forces in-place update
   Edited {Service}
    Edited PortLabel: "http" => "x" `},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			is := diffJob()
			c.edit(is)
			d := jobdiff.Compare(diffJob(), is)
			jobdiff.Annotate(d, nil)
			if got, want := strings.TrimSpace(show(d)), strings.TrimSpace(c.want); got != want {
				t.Errorf("Diff() =\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestDiffOfNone(t *testing.T) {
	for _, c := range []struct {
		old, new *nomad.Job
		want     message.DiffType
		notes    string
	}{
		{nil, diffJob(), message.DiffTypeAdded, jobdiff.AnnotationForcesCreate},
		{diffJob(), nil, message.DiffTypeDeleted, jobdiff.AnnotationForcesDestroy},
	} {
		d := jobdiff.Compare(c.old, c.new)
		jobdiff.Annotate(d, &nomad.PlanAnnotations{DesiredTGUpdates: map[string]*nomad.DesiredUpdates{"g": {Place: 3, Stop: 1}}})
		tg := d.TaskGroups[0]
		if d.Type != c.want || d.ID != "j" || tg.Type != c.want || tg.Tasks[0].Type != c.want {
			t.Errorf("Diff() = %s, group %s, task %s, want %s", d.Type, tg.Type, tg.Tasks[0].Type, c.want)
		}
		if tg.Updates["create"] != 3 || tg.Updates["destroy"] != 1 || tg.Tasks[0].Annotations[0] != c.notes {
			t.Errorf("annotations = %v %v, want %s", tg.Updates, tg.Tasks[0].Annotations, c.notes)
		}
	}
}

// TestUnsetExtensions checks that fields that are not in Nomad 2.0 are in a diff only if they are set.
func TestUnsetExtensions(t *testing.T) {
	with := func(privileged, isolated bool) *nomad.Job {
		j := diffJob()
		j.TaskGroups[0].Tasks[0].Privileged = privileged
		j.TaskGroups[0].Tasks[0].Identity = &nomad.WorkloadIdentity{Name: "default", Isolation: isolated}
		return j
	}
	for name, tc := range map[string]struct {
		old, new *nomad.Job
		want     string // part of the diff; empty: no field of ours
	}{
		"new":            {nil, with(false, false), ""},
		"deleted":        {with(false, false), nil, ""},
		"new, set":       {nil, with(true, false), `Added Privileged: "" => "true"`},
		"new, identity":  {nil, with(false, true), `Added Isolation: "" => "true"`},
		"set":            {with(false, false), with(true, false), `Edited Privileged: "false" => "true"`},
		"reset":          {with(true, false), with(false, false), `Edited Privileged: "true" => "false"`},
		"reset identity": {with(false, true), with(false, false), `Edited Isolation: "true" => "false"`},
	} {
		got := show(jobdiff.Compare(tc.old, tc.new))
		if ours := strings.Contains(got, "Privileged") || strings.Contains(got, "Isolation"); ours != (tc.want != "") ||
			!strings.Contains(got, tc.want) {
			t.Errorf("%s: diff %s, want %q", name, got, tc.want)
		}
	}
}

// TestFieldNames checks that a diff has the fields of objects that Nomad shows, and no other.
func TestFieldNames(t *testing.T) {
	with := func(delay, stagger time.Duration) *nomad.Job {
		j := diffJob()
		tg, task := j.TaskGroups[0], j.TaskGroups[0].Tasks[0]
		tg.Update = &nomad.UpdateStrategy{Stagger: stagger, MaxParallel: 1}
		task.RestartPolicy = &nomad.RestartPolicy{Attempts: 2, Delay: delay}
		task.Identity = &nomad.WorkloadIdentity{Name: "default"}
		task.Templates = []*nomad.Template{{DestPath: "local/x", EmbeddedTmpl: "x"}}
		return j
	}
	if d := jobdiff.Compare(with(1, 1), with(2, 2)); d.Type != message.DiffTypeNone {
		t.Errorf("diff of stagger and the restart block of a task = %s", show(d))
	}
	d := jobdiff.Compare(nil, with(1, 1))
	names := map[string]bool{}
	var collect func(path string, fields []*message.FieldDiff, objects []*message.ObjectDiff)
	collect = func(path string, fields []*message.FieldDiff, objects []*message.ObjectDiff) {
		for _, f := range fields {
			names[path+f.Name] = true
			if f.Old == "" && f.New == "" && f.Type != message.DiffTypeNone {
				t.Errorf("empty field %s%s has the type %s", path, f.Name, f.Type)
			}
		}
		for _, o := range objects {
			names[path+o.Name] = true
			collect(path+o.Name+".", o.Fields, o.Objects)
		}
	}
	collect("job ", d.Fields, d.Objects)
	collect("group ", d.TaskGroups[0].Fields, d.TaskGroups[0].Objects)
	collect("task ", d.TaskGroups[0].Tasks[0].Fields, d.TaskGroups[0].Tasks[0].Objects)
	for _, want := range []string{"job Dispatched", "group RestartPolicy", "group Update.MaxParallel", "group Network.Mode",
		"task Identity.ChangeMode", "task Identity.Filepath", "task Identity.ServiceName", "task Service.Address", "task Service.Kind",
		"task Service.TaskName", "task Template.ChangeSignal", "task Template.SourcePath"} {
		if !names[want] {
			t.Errorf("the diff lacks %s", want)
		}
	}
	for _, never := range []string{"task RestartPolicy", "group Update.Stagger", "group Network.MBits"} {
		if names[never] {
			t.Errorf("the diff has %s", never)
		}
	}
}
