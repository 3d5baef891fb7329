package jobs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	sdk "github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/catalog"
)

// registrations is a server with two namespaces and a node whose allocations have registered services.
type registrations struct {
	*cluster.Agent
	sdk    *sdk.Client
	node   *cluster.Registrar
	allocs []*nomad.Allocation // by namespace and ID
}

// newRegistrations starts the server and registers the service web of two allocations in default and of one in prod.
func newRegistrations(t *testing.T) *registrations {
	t.Helper()
	dir := harness.TempDir(t)
	cfg := filepath.Join(dir, "server.hcl")
	harness.WriteFile(t, cfg, "server {\n  heartbeat_grace = \"1h\"\n}\n")
	c := &registrations{Agent: harness.Start(t, cluster.Options{Dir: dir,
		Args: []string{"-server", "-bootstrap-expect=1", "-bind=127.0.0.1", "-data-dir=" + filepath.Join(dir, "data"), "-config=" + cfg}})}
	c.sdk = harness.SDKClient(t, c.Agent, "")
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	var err error
	if c.node, err = cluster.NewRegistrar(ctx, fmt.Sprintf("127.0.0.1:%d", c.RPC)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.node.Close() })
	if _, err := c.sdk.Namespaces().Register(&sdk.Namespace{Name: "prod"}, nil); err != nil {
		t.Fatal(err)
	}
	for ns, count := range map[string]int{"default": 2, "prod": 1} {
		job := servedJob("web", count)
		if _, _, err := c.sdk.Jobs().Register(job, &sdk.WriteOptions{Namespace: ns}); err != nil {
			t.Fatal(err)
		}
	}
	if c.allocs, err = c.node.Allocs(ctx, 3); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(c.allocs, func(a, b *nomad.Allocation) int { return strings.Compare(a.Namespace+a.ID, b.Namespace+b.ID) })
	for i, a := range c.allocs {
		if err := c.node.Register(ctx, a, "web", "192.0.2.1", 8080+i, "v1", fmt.Sprint("i", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.node.Register(ctx, c.allocs[0], "web-admin", "2001:db8::1", 0); err != nil {
		t.Fatal(err)
	}
	return c
}

// servedJob returns a job for the node of a catalog.
func servedJob(id string, count int) *sdk.Job {
	job := sdk.NewServiceJob(id, id, "global", 50).AddDatacenter(cluster.RegistrarDatacenter)
	group := sdk.NewTaskGroup("g", count).AddTask(sdk.NewTask("t", "mock_driver"))
	for _, name := range []string{id, id + "-admin"} {
		group.Services = append(group.Services, &sdk.Service{Name: name, Provider: "nomad"})
	}
	return job.AddTaskGroup(group)
}

// The SDK of Nomad finds, watches and removes services.
func TestSDKServices(t *testing.T) {
	c := newRegistrations(t)
	list, meta, err := c.sdk.Services().List(&sdk.QueryOptions{Namespace: "*"})
	if err != nil || len(list) != 2 || list[0].Namespace != "default" || len(list[0].Services) != 2 || meta.LastIndex == 0 ||
		!slices.Equal(list[0].Services[0].Tags, []string{"i0", "i1", "v1"}) {
		t.Fatalf("Services().List() = %+v, %v", list, err)
	}
	found, meta, err := c.sdk.Services().Get("web", &sdk.QueryOptions{Filter: `"i1" in Tags`})
	if err != nil || len(found) != 1 || found[0].Port != 8081 || found[0].AllocID != c.allocs[1].ID ||
		found[0].Datacenter != cluster.RegistrarDatacenter {
		t.Fatalf("Services().Get() with a filter = %+v, %v", found, err)
	}
	if page, meta, err := c.sdk.Services().Get("web", &sdk.QueryOptions{PerPage: 1}); err != nil || len(page) != 1 ||
		!strings.HasPrefix(meta.NextToken, "default._nomad-task-") {
		t.Errorf("a page = %+v, token %q, %v", page, meta.NextToken, err)
	}
	if chosen, _, err := c.sdk.Services().Get("web", &sdk.QueryOptions{Params: map[string]string{"choose": "1|me"}}); err != nil ||
		len(chosen) != 1 {
		t.Errorf("one chosen = %+v, %v", chosen, err)
	}
	_, _, err = c.sdk.Services().Get("web", &sdk.QueryOptions{Params: map[string]string{"choose": "-1|me"}})
	harness.WantError(t, "a negative choice", err, "400", "failed to choose services")
	if none, _, err := c.sdk.Services().Get("nope", nil); err != nil || none == nil || len(none) != 0 {
		t.Errorf("an unknown service = %#v, %v, want an empty list", none, err)
	}
	if of, _, err := c.sdk.Jobs().Services("web", nil); err != nil || len(of) != 3 {
		t.Errorf("services of the job = %+v, %v", of, err)
	}
	_, _, err = c.sdk.Jobs().Services("nope", nil)
	harness.WantError(t, "services of an unknown job", err, "404", "job not found")
	if of, _, err := c.sdk.Allocations().Services(c.allocs[0].ID, nil); err != nil || len(of) != 2 {
		t.Errorf("services of the allocation = %+v, %v", of, err)
	}
	_, _, err = c.sdk.Allocations().Services(nomad.NewID(), nil)
	harness.WantError(t, "services of an unknown allocation", err, "404", "allocation not found")

	woken := make(chan int, 1)
	go func() {
		found, _, err := c.sdk.Services().Get("web", &sdk.QueryOptions{WaitIndex: meta.LastIndex})
		if err != nil {
			t.Error(err)
		}
		woken <- len(found)
	}()
	if _, err := c.sdk.Services().Delete("web", found[0].ID, nil); err != nil {
		t.Fatal(err)
	}
	if left := <-woken; left != 1 {
		t.Errorf("the blocking query returns %d registrations, want 1", left)
	}
	_, err = c.sdk.Services().Delete("web", found[0].ID, nil)
	harness.WantError(t, "a second deletion", err, "404", "service registration not found")
	if err := c.node.Report(t.Context(), nomad.AllocClientStatusFailed, c.allocs[0]); err != nil {
		t.Fatal(err)
	}
	if left, _, err := c.sdk.Services().Get("web", nil); err != nil || len(left) != 0 {
		t.Errorf("after the end of the allocation %+v remain, %v", left, err)
	}
}

// Requests that are not valid name the error.
func TestServiceRequests(t *testing.T) {
	a := newRegistrations(t)
	for request, want := range map[string]string{
		"GET /v1/service/web/x":    "405",
		"PUT /v1/service/web":      "405",
		"DELETE /v1/service/a/b/c": "400 invalid URI",
		"GET /v1/service/a/b/c":    "400 invalid URI",
		"GET /v1/service/":         "400 missing service name",
		"DELETE /v1/service/web/":  "400 missing service id",
		"GET /v1/service/a%2Fb":    "400 invalid URI",
	} {
		method, path, _ := strings.Cut(request, " ")
		req, err := http.NewRequestWithContext(t.Context(), method, a.Address()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if got := fmt.Sprintf("%d %s", resp.StatusCode, body); err != nil || !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, %v, want %s", request, got, err, want)
		}
	}
}

func TestServiceCommands(t *testing.T) {
	c := newRegistrations(t)
	id := func(i int) string { return c.allocs[i].ID[:8] }
	node := c.allocs[0].NodeID
	run := func(args ...string) string {
		out, _ := harness.Command(t, c.Agent, args...)
		return out
	}
	for _, command := range []struct {
		args string
		want string
	}{
		{"service list", "Service Name  Tags\nweb           [i0,i1,v1]\nweb-admin     []\n"},
		{"service list -namespace=*", "Service Name  Namespace  Tags\nweb           default    [i0,i1,v1]\nweb-admin     default    []\nweb           prod       [i2,v1]\n"},
		{"service list -name=web-admin", "Service Name  Tags\nweb-admin     []\n"},
		{"service list -name=none", "No service registrations found\n"},
		{"service list -t {{len_.}}", "1\n"},
		{"service info web", fmt.Sprintf("Job ID  Address         Tags     Node ID   Alloc ID\nweb     192.0.2.1:8080  [i0,v1]  %s  %s\nweb     192.0.2.1:8081  [i1,v1]  %[1]s  %[3]s\n", node[:8], id(0), id(1))},
		{"service info web-a", fmt.Sprintf("Job ID  Address      Tags  Node ID   Alloc ID\nweb     2001:db8::1  []    %s  %s\n", node[:8],
			id(0))},
		{"service info -filter=Port==8081 web",
			fmt.Sprintf("Job ID  Address         Tags     Node ID   Alloc ID\nweb     192.0.2.1:8081  [i1,v1]  %s  %s\n", node[:8], id(1))},
		{"service info -verbose web-admin", fmt.Sprintf("ID           = %s\nService Name = web-admin\nNamespace    = default\nJob ID       = web\nAlloc ID     = %s\nNode ID      = %s\nDatacenter   = registrar\nAddress      = 2001:db8::1\nTags         = []\n"+
			"Meta         = <none>\nStatus       = passing\n",
			catalog.ID(c.allocs[0].ID, "group-g", "web-admin", "0"), c.allocs[0].ID, node)},
		{"service info we", "Prefix matched multiple services\n\nService Name  Namespace  Tags\nweb           default    [i0,i1,v1]\nweb-admin     default    []\n"},
		{"service info nope", "No service registrations with the name or prefix \"nope\" found\n"},
	} {
		args := strings.Fields(command.args)
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "_", " ")
		}
		if got := run(args...); got != command.want {
			t.Errorf("nomad %s:\n%s\nwant\n%s", command.args, got, command.want)
		}
	}
	first := run("service", "info", "-per-page=1", "web")
	_, token, _ := strings.Cut(first, "nomad service info -page-token ")
	if second := run("service", "info", "-per-page=1", "-page-token="+strings.Fields(token + " -")[0],
		"web"); !strings.Contains(first, ":8080") || !strings.Contains(second, ":8081") || strings.Contains(second, "paginated") {
		t.Errorf("pages:\n%s\nand\n%s", first, second)
	}
	var regs []*sdk.ServiceRegistration
	if err := json.Unmarshal([]byte(run("service", "info", "-json", "-namespace=prod", "web")), &regs); err != nil || len(regs) != 1 ||
		regs[0].Namespace != "prod" {
		t.Fatalf("-json: %+v, %v", regs, err)
	}
	if out := run("service", "delete", "web", regs[0].ID); !strings.Contains(out, "service registration not found") {
		t.Errorf("deletion in another namespace: %s", out)
	}
	if out := run("service", "delete", "-namespace=prod", "web", regs[0].ID); out != "Successfully deleted service registration\n" {
		t.Errorf("deletion: %s", out)
	}
	if out := run("service", "list", "-namespace=prod"); out != "No service registrations found\n" {
		t.Errorf("after the deletion: %s", out)
	}
}
