package reconcile_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/hashicorp/go-metrics"

	"github.com/open-nomad/open-nomad/internal/consul/reconcile"
)

// TestMetrics checks what each kind of request counts.
func TestMetrics(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		sink := metrics.NewInmemSink(time.Hour, time.Hour)
		cfg := metrics.DefaultConfig("")
		cfg.EnableHostname, cfg.EnableRuntimeMetrics = false, false
		_, err := metrics.NewGlobal(cfg, sink)
		must(t, err)
		defer metrics.NewGlobal(cfg, &metrics.BlackholeSink{}) //nolint:errcheck // the test is over
		r := reconcile.New(reconcile.Config{Agent: n.agent(t, "")})
		run(t, r)
		web := service(1, "web")
		r.Set("a", []*reconcile.Service{web, service(1, "api")})
		synctest.Wait()
		client := n.direct(t).Client().Agent()
		must(t, client.CheckRegister(&api.AgentCheckRegistration{ID: checkID("x"), Name: "x", ServiceID: web.Registration.ID,
			AgentServiceCheck: api.AgentServiceCheck{TTL: "1h"}}))
		must(t, client.CheckDeregister(web.Registration.Checks[0].CheckID))
		n.set(failing, "GET")
		wait(30 * time.Second) // a list fails
		n.set(served, "")
		wait(time.Second)
		r.Remove(t.Context(), "a")
		data := sink.Data()[0]
		for name, want := range map[string]float64{"service_registrations": 2, "check_registrations": 3, "service_deregistrations": 2,
			"check_deregistrations": 3, "sync_failure": 1} {
			if got := data.Counters["client.consul."+name].Sum; got != want {
				t.Errorf("%s = %v, want %v", name, got, want)
			}
		}
		if got := fmt.Sprint(data.Gauges["client.consul.services"].Value, data.Gauges["client.consul.checks"].Value); got != "2 2" {
			t.Errorf("gauges of services and checks = %s", got)
		}
	})
}
