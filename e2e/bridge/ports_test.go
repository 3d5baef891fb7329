package bridge_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/internal/testdocker"
	"github.com/open-nomad/open-nomad/internal/testnet"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// publishing is a group on the node's network whose container publishes a port. Its services have the
// address of the node by default, and that of the container on request.
const publishing = `group "g" {
  network {
    port "http" {
      to = 80
    }
  }
  service {
    name     = "group"
    provider = "nomad"
    port     = "http"
  }
  task "t" {
    driver = "docker"
    config {
      image   = %q
      command = "sh"
      args    = ["-c", "env | grep -E '^NOMAD_(PORT|HOST_PORT|ALLOC_PORT|ADDR)_' | sort; while echo hello | nc -l -p $NOMAD_PORT_http; do :; done"]
      ports   = ["http"]
    }
    service {
      name     = "web"
      provider = "nomad"
      port     = "http"
      check {
        type     = "tcp"
        interval = "1s"
        timeout  = "1s"
      }
    }
    service {
      name         = "inside"
      provider     = "nomad"
      port         = "http"
      address_mode = "driver"
    }
    resources {
      cpu    = 50
      memory = 64
    }
  }
}`

// A container without a network of the group publishes its ports at the address of the node. Services,
// checks and the environment have the same ports, also after a crash of the agent and a restart of the task.
func TestDockerPorts(t *testing.T) {
	if !testnet.IsPrivate() {
		t.Skip("needs root")
	}
	daemon := testdocker.StartBridged(t)
	n := newNode(t, "", fmt.Sprintf("plugin \"docker\" {\n config {\n endpoint = %q\n }\n}\n", daemon.Endpoint()))
	for label, want := range map[string]string{
		`ports = ["htpt"]`:         `ports: port "htpt" not found, check network block: it has the ports http`,
		`ports = ["http", "http"]`: "duplicate label",
	} {
		job := n.parse("wrong", strings.Replace(fmt.Sprintf(publishing, testdocker.Image), `ports   = ["http"]`, label, 1))
		if _, _, err := n.Client.Jobs().Register(job, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: Register() = %v, want %q", label, err, want)
		}
	}
	n.run("web", fmt.Sprintf(publishing, testdocker.Image))
	al := n.allocs("web", "running", 1)["g"]
	port := al.AllocatedResources.Shared.Ports[0]
	host := net.JoinHostPort(port.HostIP, strconv.Itoa(port.Value))
	check := func() {
		t.Helper()
		n.want(true, "", host)
		for _, name := range []string{"group", "web"} {
			n.registered(name, host)
		}
		inside := n.registered("inside", "")
		if !strings.HasPrefix(inside, "198.18.") || !strings.HasSuffix(inside, ":80") {
			t.Errorf("the service with address_mode driver has %s", inside)
		}
		n.want(true, "", inside)
		n.passes(al)
	}
	check()
	want := fmt.Sprintf("NOMAD_ADDR_http=%s\nNOMAD_ALLOC_PORT_http=80\nNOMAD_HOST_PORT_http=%d\nNOMAD_PORT_http=80\n", host, port.Value)
	testpace.Succeeds(t, "the environment of the task", func() error {
		text, err := os.ReadFile(filepath.Join(n.dir, "data", "alloc", al.ID, "alloc", "logs", "t.stdout.0"))
		if err == nil && string(text) != want {
			err = fmt.Errorf("environment %q, want %q", text, want)
		}
		return err
	})
	if info, _, err := n.Client.Allocations().Info(al.ID, nil); err != nil || info.TaskStates["t"].Isolation != "baseline" {
		t.Errorf("isolation = %q, %v", info.TaskStates["t"].Isolation, err)
	}
	n.crash()
	n.allocs("web", "running", 1)
	check()
	if err := n.Client.Allocations().Restart(al, "t", nil); err != nil {
		t.Fatal(err)
	}
	testpace.Until(t, "the task is restarted", func() bool {
		info, _, err := n.Client.Allocations().Info(al.ID, nil)
		return err == nil && info.TaskStates["t"].Restarts == 1 && info.TaskStates["t"].State == "running"
	})
	check()
	if _, _, err := n.Client.Jobs().Deregister("web", false, nil); err != nil {
		t.Fatal(err)
	}
	n.allocs("web", "complete", 1)
	testpace.Until(t, host+" is not published", func() bool {
		c, err := net.DialTimeout("tcp", host, time.Second)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	for _, name := range []string{"group", "web", "inside"} {
		if list, _, err := n.Client.Services().Get(name, nil); err != nil || len(list) > 0 {
			t.Errorf("service %s after the end: %v, %v", name, list, err)
		}
	}
}

// registered waits until a service has one registration, and returns its address. A wanted address must be
// the one.
func (n *node) registered(name, want string) (addr string) {
	n.t.Helper()
	testpace.Until(n.t, "the service "+name+" is registered at "+want, func() bool {
		list, _, err := n.Client.Services().Get(name, nil)
		if err != nil || len(list) != 1 {
			return false
		}
		addr = net.JoinHostPort(list[0].Address, strconv.Itoa(list[0].Port))
		return want == "" || addr == want
	})
	return addr
}

// passes waits until all checks of an allocation succeed.
func (n *node) passes(al *api.Allocation) {
	n.t.Helper()
	testpace.Until(n.t, "the checks of "+al.ID+" pass", func() bool {
		all, err := n.Client.Allocations().Checks(al.ID, nil)
		if err != nil || len(all) == 0 {
			return false
		}
		for _, c := range all {
			if c.Status != "success" {
				return false
			}
		}
		return true
	})
}
