package jobs_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// consulJob is a job file for Consul: the provider of its services is the default, and its template reads services and
// keys. %d is the port of the gRPC server.
const consulJob = `
job "shop" {
  group "db" {
    service {
      name    = "db"
      port    = "5432"
      address = "127.0.0.1"
      tags    = ["primary"]
      meta {
        version = "7"
      }
      check {
        type     = "script"
        name     = "answers"
        task     = "t"
        command  = "/bin/sh"
        args     = ["-c", "test -e $${NOMAD_TASK_DIR}/up"]
        interval = "1s"
        timeout  = "2s"
        failures_before_critical = 0
      }
    }
    %s
  }
  group "web" {
    service {
      name    = "web"
      port    = "%d"
      address = "127.0.0.1"
      check {
        type         = "grpc"
        grpc_service = "shop"
        interval     = "1s"
        timeout      = "2s"
        failures_before_critical = 2
      }
    }
    %s
  }
}
`

// A job file for Consul runs on a cluster that has none: its services are registered natively, with their health, and
// its template has the healthy ones and the keys of variables.
func TestConsulJob_WithoutConsul(t *testing.T) {
	t.Parallel() // it mostly waits
	server, port := grpcHealth(t)
	a := harness.Start(t, cluster.Options{Dir: harness.TempDir(t), Args: []string{"-dev"}})
	t.Cleanup(func() { harness.PurgeAll(t, a) })
	putKey(t, a, "consul/shop/motd", "hello")
	db := harness.Shell(`touch "$NOMAD_TASK_DIR/up"; exec sleep 1000`)
	web := harness.Shell(`exec sleep 1000`, `
      template {
        data        = "{{ range service \"primary.db\" }}{{ .Name }}@{{ .Address }}:{{ .Port }} v{{ .ServiceMeta.version }} {{ end }}{{ key \"shop/motd\" }}"
        destination = "local/out"
        change_mode = "noop"
      }`)
	job, err := a.Client.Jobs().ParseHCL(fmt.Sprintf(consulJob, db, port, web), true)
	if err != nil {
		t.Fatal(err)
	}
	resp, _, err := a.Client.Jobs().Register(job, nil)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(resp.Warnings, "natively") != 1 {
		t.Errorf("warnings of the registration = %q, want the native services once", resp.Warnings)
	}
	health := func(service string) string {
		list, _, err := a.Client.Services().Instances(service, nil)
		if err != nil || len(list) != 1 {
			return fmt.Sprint(len(list), " instances, ", err)
		}
		return string(list[0].Status)
	}
	is := func(service, status string) {
		t.Helper()
		harness.Within(t, harness.Patience, service+" is "+status, func() bool { return health(service) == status })
	}
	is("db", "passing")
	is("web", "passing")
	rendered := func(want string) {
		t.Helper()
		harness.Within(t, harness.Patience, "the template has "+want, func() bool { return readLocal(a, "web", "t/local/out") == want })
	}
	rendered("db@127.0.0.1:5432 v7 hello")
	server.SetServingStatus("shop", healthpb.HealthCheckResponse_NOT_SERVING)
	is("web", "critical")
	server.SetServingStatus("shop", healthpb.HealthCheckResponse_SERVING)
	is("web", "passing")
	putKey(t, a, "consul/shop/motd", "bye")
	rendered("db@127.0.0.1:5432 v7 bye")
	out, err := harness.Command(t, a, "job", "status", "shop")
	if err != nil || !strings.Contains(out, "onsul") {
		t.Errorf("job status does not show that services for Consul are native: %v\n%s", err, out)
	}
}

// grpcHealth serves the health protocol of gRPC on a port of the loopback interface.
func grpcHealth(t *testing.T) (*health.Server, int) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h, server := health.NewServer(), grpc.NewServer()
	healthpb.RegisterHealthServer(server, h)
	h.SetServingStatus("shop", healthpb.HealthCheckResponse_SERVING)
	go func() { _ = server.Serve(listener) }() // ends with Stop
	t.Cleanup(server.Stop)
	return h, listener.Addr().(*net.TCPAddr).Port
}

// putKey writes a key of Consul as a variable.
func putKey(t *testing.T, a *cluster.Agent, path, value string) {
	t.Helper()
	v := &api.Variable{Path: path, Items: api.VariableItems{"value": value}}
	if _, _, err := a.Client.Variables().Update(v, nil); err != nil {
		t.Fatal(err)
	}
}

// readLocal reads a file of the running allocation of a group of the job shop, or returns "".
func readLocal(a *cluster.Agent, group, path string) string {
	allocs, _, err := a.Client.Jobs().Allocations("shop", false, nil)
	if err != nil {
		return ""
	}
	for _, stub := range allocs {
		if stub.TaskGroup != group || stub.ClientStatus != api.AllocClientStatusRunning {
			continue
		}
		in, err := a.Client.AllocFS().Cat(&api.Allocation{ID: stub.ID, NodeID: stub.NodeID}, path, nil)
		if err != nil {
			return ""
		}
		defer in.Close()
		text, err := io.ReadAll(in)
		if err != nil {
			return ""
		}
		return string(text)
	}
	return ""
}
