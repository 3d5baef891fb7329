package reconcile_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/internal/consul/reconcile"
)

// TestLife checks the requests of a service from Set to Remove.
func TestLife(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		r := reconcile.New(reconcile.Config{Agent: n.agent(t, "")})
		run(t, r)
		web := service(1, "web")
		id := web.Registration.ID
		r.Set("a", []*reconcile.Service{web})
		synctest.Wait()
		equal(t, "start", n.take(), "GET /self", "GET /services", "GET /checks", "PUT /service/register")
		equal(t, "registered", n.consul.IDs(), web.Registration.Checks[0].CheckID, id)
		if got := r.States("a"); len(got) != 1 || !got[0].Registered || got[0].Name != "web" || got[0].ID != id {
			t.Errorf("States() = %+v", got)
		}
		r.Set("a", []*reconcile.Service{service(1, "web")})
		synctest.Wait()
		equal(t, "unchanged", n.take())
		wait(30 * time.Second)
		equal(t, "periodic", n.take(), "GET /services", "GET /checks")
		r.Set("a", []*reconcile.Service{changed(web, func(s *api.AgentServiceRegistration) { s.Tags = []string{"c"} })})
		synctest.Wait()
		equal(t, "changed", n.take(), "PUT ?replace-existing-checks=true /service/register")
		if !r.Remove(t.Context(), "a") {
			t.Error("Remove() = false")
		}
		equal(t, "removed", n.take(), "PUT /service/deregister/"+id)
		equal(t, "registered at the end", n.consul.IDs())
	})
}
