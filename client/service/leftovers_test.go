package service_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/client/service"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/catalog"
)

// agent runs a registrar until kill is called.
func agent(s *servers) (r *service.Registrar, kill func()) {
	r = service.New(s, slog.New(slog.NewTextHandler(&s.log, nil)))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	return r, func() { cancel(); <-done }
}

// ofNode returns registrations of node n.
func ofNode(names ...string) []*catalog.Registration {
	out := regs(names...)
	for _, r := range out {
		r.NodeID, r.AllocID = "n", "a1"
	}
	return out
}

// complete is an allocation whose services are all set.
func complete(string) bool { return true }

// TestLeftovers_Killed checks that the next agent removes the services that the previous one could not remove, and no others.
func TestLeftovers_Killed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &servers{regs: map[string]*catalog.Registration{}}
		r, kill := agent(s)
		r.Set("group", ofNode("web", "old"))
		r.Set("task", ofNode("side"))
		synctest.Wait()
		s.set(func() {
			s.down = true
			s.regs["elsewhere"] = &catalog.Registration{ID: "elsewhere", NodeID: "other", Namespace: "prod"}
		})
		r.Set("group", ofNode("web"))      // an update in place
		if r.Remove(t.Context(), "task") { // a pause
			t.Error("Remove() = true without servers")
		}
		kill()

		next, kill := agent(s)
		defer kill()
		next.Set("group", ofNode("web"))
		ended := make(chan error, 1)
		go func() { ended <- next.Leftovers(t.Context(), "n", complete) }()
		time.Sleep(time.Hour)
		s.set(func() { s.down = false })
		time.Sleep(2 * time.Minute)
		if err := <-ended; err != nil {
			t.Errorf("Leftovers() = %v", err)
		}
		if got := s.names(); got != "elsewhere web" || next.Pending() != 0 {
			t.Errorf("registered %q, %d pending, want web and elsewhere", got, next.Pending())
		}
	})
}

// TestLeftovers_HooksRun checks that the services of a task stay while its hooks run, before they are set.
func TestLeftovers_HooksRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &servers{regs: map[string]*catalog.Registration{}}
		for _, r := range ofNode("side", "old") {
			s.regs[r.ID] = r
		}
		r, kill := agent(s)
		defer kill()
		ended := make(chan error, 1)
		go func() { ended <- r.Leftovers(t.Context(), "n", func(string) bool { return r.Has("task") }) }()
		time.Sleep(time.Hour)
		if got := s.names(); got != "old side" {
			t.Errorf("registered %q before the task has set its services", got)
		}
		if calls := s.calls; calls > 130 {
			t.Errorf("%d calls in an hour, want at most two for each minute", calls)
		}
		r.Set("task", ofNode("side"))
		time.Sleep(2 * time.Minute)
		if err := <-ended; err != nil {
			t.Errorf("Leftovers() = %v", err)
		}
		if got := s.names(); got != "side" {
			t.Errorf("registered %q, want side", got)
		}
	})
}

// TestLeftovers_SetMeanwhile checks that a service stays if its task sets it while it is removed.
func TestLeftovers_SetMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &servers{regs: map[string]*catalog.Registration{}, only: "ServiceRegistration.DeleteByID"}
		s.regs["side"] = ofNode("side")[0]
		r, kill := agent(s)
		defer kill()
		release := make(chan struct{})
		s.set(func() { s.hang = release })
		if err := r.Leftovers(t.Context(), "n", complete); err != nil {
			t.Errorf("Leftovers() = %v", err)
		}
		synctest.Wait()
		r.Set("task", ofNode("side"))
		close(release)
		time.Sleep(time.Minute)
		if got := s.names(); got != "side" || r.Pending() != 0 {
			t.Errorf("registered %q, %d pending, want side", got, r.Pending())
		}
	})
}

// TestLeftovers_NomadServers checks that servers without the method end the search.
func TestLeftovers_NomadServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &servers{unlisted: apierror.NoMethod("ServiceRegistration.Instances", true)}
		r, kill := agent(s)
		defer kill()
		if err := r.Leftovers(t.Context(), "n", complete); err != nil || s.calls != 1 {
			t.Errorf("Leftovers() = %v after %d calls, want one", err, s.calls)
		}
	})
}

// TestComplete checks the providers of services. Package consul has the states of the tasks.
func TestComplete(t *testing.T) {
	a := placed(&nomad.Service{Name: "web", Provider: "nomad"}, nil)
	none := func(string) bool { return false }
	for provider, want := range map[string]bool{nomad.ServiceProviderNomad: false, nomad.ServiceProviderConsul: true} {
		if got := service.Complete(provider, none, a, nil); got != want {
			t.Errorf("Complete() of %s without services = %t, want %t", provider, got, want)
		}
	}
}
