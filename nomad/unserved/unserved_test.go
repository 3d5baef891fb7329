package unserved

import (
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Every feature that validation refuses has its own message, and there are no other messages.
func TestSentenceOfEachFeature(t *testing.T) {
	want := jobrules.AllUnsupportedFeatures()
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(effects)); !slices.Equal(got, want) {
		t.Errorf("features with a sentence:\n%q, want\n%q", got, want)
	}
	seen := map[string]string{}
	for name, s := range effects {
		for n, count := range map[int]string{1: "1 ", 3: "3 "} {
			got := s.of(n)
			if !strings.Contains(got, count) || strings.Contains(got, "{") || strings.Contains(got, "%") || strings.HasSuffix(got, ".") {
				t.Errorf("sentence of %q for %d: %q", name, n, got)
			}
			if strings.Contains(got, "1 jobs") || strings.Contains(got, "3 job ") {
				t.Errorf("sentence of %q for %d has the wrong number: %q", name, n, got)
			}
			if other := seen[got]; other != "" {
				t.Errorf("%q and %q have the same sentence", name, other)
			}
			seen[got] = name
		}
	}
}

func TestSentences(t *testing.T) {
	for _, c := range []struct {
		name string
		n    int
		want string
	}{
		{"multiregion", 1, "multiregion blocks of 1 job have no effect: each region runs its part independently"},
		{"multiregion", 3, "multiregion blocks of 3 jobs have no effect: each region runs its part independently"},
		{"consul service", 4, "services of 4 jobs with provider \"consul\" are registered by clients with Consul only, until the job is registered again"},
		{"vault", 1, "vault blocks of 1 job work on clients with Vault only, and servers without Vault refuse the next registration"},
		{"vault cluster", 2, "tasks with vault blocks for another cluster than default in 2 jobs will not start on clients of this version"},
		{"later", 1, "1 job uses later, which this version does not support"},
		{"later", 2, "2 jobs use later, which this version does not support"},
	} {
		if got := effectOnJobs(c.name, c.n); got != c.want {
			t.Errorf("effectOnJobs(%q, %d) = %q, want %q", c.name, c.n, got, c.want)
		}
	}
}

// List skips stopped and dead jobs. A job that uses a feature twice counts once.
func TestList(t *testing.T) {
	restore := state.NewRestore(slog.New(slog.DiscardHandler))
	several := &nomad.Multiregion{}
	service := []*nomad.Service{{Name: "web", Provider: "consul"}}
	add(t, restore, "Job",
		&nomad.Job{ID: "b", Namespace: "default", Status: "running", Multiregion: several},
		&nomad.Job{ID: "a", Namespace: "other", Status: "pending", Multiregion: several, Version: 2},
		&nomad.Job{ID: "c", Namespace: "default", Status: "running", Stop: true, Multiregion: several},
		&nomad.Job{ID: "d", Namespace: "default", Status: "dead", Multiregion: several},
		&nomad.Job{ID: "web", Namespace: "default", Status: "running", TaskGroups: []*nomad.TaskGroup{nil, {Name: "g", Services: service,
			Volumes: map[string]*nomad.VolumeRequest{"x": nil, "v": {Type: "host", AttachmentMode: "block-device"}}, Tasks: []*nomad.Task{nil, {Name: "t", Services: service}}}}},
		&nomad.Job{ID: "plain", Namespace: "default", Status: "running",
			TaskGroups: []*nomad.TaskGroup{{Name: "g", Tasks: []*nomad.Task{{Name: "t"}}}}})
	tagged := &nomad.JobVersionTag{Name: "good"}
	add(t, restore, "JobVersion",
		&nomad.Job{ID: "a", Namespace: "other", Version: 0, VersionTag: tagged},
		&nomad.Job{ID: "a", Namespace: "other", Version: 1, VersionTag: &nomad.JobVersionTag{Name: "better"}},
		&nomad.Job{ID: "c", Namespace: "default", VersionTag: tagged},
		&nomad.Job{ID: "gone", Namespace: "default", VersionTag: tagged})
	add(t, restore, "PeriodicLaunch", &nomad.PeriodicLaunch{Namespace: "default", ID: "b"})
	add(t, restore, "ScalingPolicy", &nomad.ScalingPolicy{ID: "p"})
	add(t, restore, "ScalingEvents", &nomad.JobScalingEvents{Namespace: "default", JobID: "plain"})
	got := List(restore.Finish().Snapshot())
	want := []Feature{
		{"consul service", 1, "services of 1 job with provider \"consul\" are registered by clients with Consul only, until the job is registered again",
			[]string{"default/web"}},
		{"multiregion", 2, "multiregion blocks of 2 jobs have no effect: each region runs its part independently",
			[]string{"default/b", "other/a"}},
		{"volume attachment_mode", 1, "attachment_mode \"block-device\" of host volumes of 1 job has no effect here", []string{"default/web"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("List() =\n%+v, want\n%+v", got, want)
	}
	if got := List(state.New(slog.New(slog.DiscardHandler)).Snapshot()); got != nil {
		t.Errorf("List() of a new state = %+v, want nil", got)
	}
}

// add restores rows like a snapshot.
func add(t *testing.T, to *state.Restore, name string, rows ...any) {
	t.Helper()
	i := slices.IndexFunc(state.Tables(), func(r state.Record) bool { return r.Name == name })
	for _, row := range rows {
		body, err := codec.Encode(row)
		if err != nil {
			t.Fatal(err)
		}
		if err := state.Tables()[i].Read(to, func(v any) error { return codec.Decode(body, v) }); err != nil {
			t.Fatal(err)
		}
	}
}
