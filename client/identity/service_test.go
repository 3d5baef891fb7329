package identity_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/client/identity"
	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// withServices returns an allocation whose task has an identity, and whose group has services with identities of these
// names.
func withServices(task string, services ...string) *nomad.Allocation {
	group := &nomad.TaskGroup{Name: "g", Tasks: []*nomad.Task{{Name: "web"}}}
	if task != "" {
		group.Tasks[0].Identities = []*nomad.WorkloadIdentity{{Name: task}}
	}
	for _, name := range services {
		group.Services = append(group.Services, &nomad.Service{Name: "${meta.team}-" + name, Provider: "consul",
			Identity: &nomad.WorkloadIdentity{Name: name}})
	}
	return &nomad.Allocation{ID: "a1", TaskGroup: "g", Job: &nomad.Job{TaskGroups: []*nomad.TaskGroup{group}}}
}

func serviceHandle(name string) message.WIHandle {
	return message.WIHandle{IdentityName: name, WorkloadIdentifier: "${meta.team}-" + name, WorkloadType: message.WorkloadTypeService,
		InterpolatedWorkloadIdentifier: "blue-" + name}
}

func newManager(s *servers, db *state.DB, a *nomad.Allocation) *identity.Manager {
	return identity.New(identity.Config{Alloc: a, Node: &nomad.Node{Meta: map[string]string{"team": "blue"}}, RPC: s, Store: db,
		Log: slog.New(slog.DiscardHandler)})
}

func TestServices(t *testing.T) {
	a := withServices("", "api")
	group := a.Job.TaskGroups[0]
	group.Services = append(group.Services, &nomad.Service{Name: "none"},
		&nomad.Service{Name: "native", Provider: "nomad", Identity: &nomad.WorkloadIdentity{Name: "native"}})
	group.Tasks[0].Env = map[string]string{"COLOR": "red"}
	group.Tasks[0].Services = []*nomad.Service{{Name: "${COLOR}-${NOMAD_TASK_NAME}", Identity: &nomad.WorkloadIdentity{Name: "db"}}}
	got := identity.Services(a, &nomad.Node{Meta: map[string]string{"team": "blue"}}, "global")
	if len(got) != 2 {
		t.Fatalf("Services() = %+v, want 2", got)
	}
	if h := got[0].Handle(); h != serviceHandle("api") || got[0].Task != "" {
		t.Errorf("handle of the group's service = %+v", h)
	}
	if got[1].Interpolated != "red-web" || got[1].Task != "web" {
		t.Errorf("service of the task = %+v", got[1])
	}
}

// TestServices_Fetched checks that the token of a service is fetched with the interpolated name, together with those of tasks.
func TestServices_Fetched(t *testing.T) {
	s := &servers{}
	m := newManager(s, open(t), withServices("aws", "api"))
	if err := m.Prepare(context.Background()); err != nil {
		t.Fatal(err)
	}
	ch, stop := m.Watch(serviceHandle("api"))
	defer stop()
	if got := token(t, ch); got != "api-1" {
		t.Errorf("token = %q, want api-1", got)
	}
}

// TestServices_DoNotPreventStart checks that an allocation starts without the tokens of its services, and gets them later.
func TestServices_DoNotPreventStart(t *testing.T) {
	for name, c := range map[string]struct {
		task string
		s    *servers
	}{
		"servers refuse the service": {"aws", &servers{reject: "api"}},
		"servers do not answer":      {"", &servers{down: true}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newManager(c.s, open(t), withServices(c.task, "api"))
				if err := m.Prepare(t.Context()); err != nil {
					t.Fatalf("Prepare() = %v", err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- m.Run(ctx) }()
				time.Sleep(time.Minute)
				c.s.set(func() { c.s.down, c.s.reject = false, "" })
				ch, stop := m.Watch(serviceHandle("api"))
				defer stop()
				select {
				case <-ch:
				case <-time.After(time.Minute):
					t.Error("no token of the service one minute after the servers answer")
				}
				cancel()
				if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
					t.Errorf("Run() = %v", err)
				}
			})
		})
	}
}

// TestServices_Refused checks that one refused service does not end the renewal of the others.
func TestServices_Refused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &servers{reject: "api", ttl: map[string]time.Duration{"aws": time.Minute}}
		m := newManager(s, open(t), withServices("aws", "api"))
		if err := m.Prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
		ch, stop := m.Watch(identity.TaskHandle("web", "aws"))
		defer stop()
		first := token(t, ch)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go m.Run(ctx) //nolint:errcheck // ends with ctx
		select {
		case second := <-ch:
			if second.Reveal() == first {
				t.Error("the same token again")
			}
		case <-time.After(time.Minute):
			t.Error("the token of the task was not renewed")
		}
	})
}

// TestUpdate checks that an update fetches the token of a new service, and no longer renews that of a removed one.
func TestUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, db := &servers{}, open(t)
		m := newManager(s, db, withServices("aws", "api"))
		if err := m.Prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := m.Run(t.Context()); err != nil { // no token expires
			t.Fatal(err)
		}
		if m.Update(withServices("aws", "api")) {
			t.Error("Update() reports a missing token for the same services")
		}
		if !m.Update(withServices("aws", "db")) {
			t.Fatal("Update() does not report a missing token")
		}
		ch, stop := m.Watch(serviceHandle("db"))
		defer stop()
		if err := m.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := token(t, ch); got != "db-2" {
			t.Errorf("token = %q, want db-2", got)
		}
		stored, err := db.Identities("a1")
		if err != nil || len(stored) != 2 {
			t.Errorf("stored identities = %v, %v, want those of aws and db", stored, err)
		}
		for _, id := range stored {
			if id.IdentityName == "aws" && id.JWT != "aws-1" {
				t.Errorf("the update renewed the token of the task: %s", id.JWT) // its change mode could restart the task
			}
		}
	})
}
