package service_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/client/service"
	"github.com/open-nomad/open-nomad/nomad"
)

// recorder is a Consul that keeps what is set, and the order of the calls.
type recorder struct {
	native *service.Registrar
	names  map[string]string // by owner
	order  []string
}

func (r *recorder) Set(owner string, w *service.Workload) error {
	var names []string
	for _, s := range w.Services {
		names = append(names, s.Name)
	}
	r.names[owner] = strings.Join(names, " ")
	r.order = append(r.order, strings.Join(names, " ")+"/"+string(rune('0'+r.native.Pending())))
	return nil
}

func (r *recorder) Remove(_ context.Context, owner string) bool { r.Drop(owner); return true }
func (r *recorder) Drop(owner string)                           { delete(r.names, owner) }

// TestPublisher_Providers checks that each provider gets its services, and that a change of the provider sets the new
// registration before the old one is removed.
func TestPublisher_Providers(t *testing.T) {
	native := service.New(nil, slog.New(slog.DiscardHandler))
	consul := &recorder{native: native, names: map[string]string{}}
	p := service.Publisher{Registrar: native, Consul: consul, Owner: "o"}
	publish := func(provider string) {
		t.Helper()
		w := service.OfGroup(placed(&nomad.Service{Name: "web", Provider: provider}, nil), node, "global", nil)
		if err := p.Publish(&w, func() {}); err != nil {
			t.Fatal(err)
		}
	}
	publish("")
	if consul.names["o"] != "web" || native.Pending() != 0 {
		t.Errorf("without a provider: Consul has %q, %d native ones", consul.names["o"], native.Pending())
	}
	publish("nomad")
	if consul.names["o"] != "" || native.Pending() != 1 {
		t.Errorf("provider nomad: Consul has %q, %d native ones", consul.names["o"], native.Pending())
	}
	// The last field is the number of native registrations at that time.
	if got := strings.Join(consul.order, " "); got != "web/0 /1" {
		t.Errorf("order of the calls %q, want the removal after the native registration", got)
	}
	p.Drop()
	if _, ok := consul.names["o"]; ok {
		t.Error("Drop() does not reach Consul")
	}
}

// TestPublisher_NoConsul checks the error of a node without Consul.
func TestPublisher_NoConsul(t *testing.T) {
	p := service.Publisher{Registrar: service.New(nil, slog.New(slog.DiscardHandler)), Owner: "o"}
	w := service.OfGroup(placed(&nomad.Service{Name: "web", Provider: "consul"}, nil), node, "global", nil)
	want := `service "web": service registration provider "consul" not enabled: add a consul block`
	if err := p.Publish(&w, func() {}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Publish() = %v, want %q", err, want)
	}
}
