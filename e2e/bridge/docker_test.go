package bridge_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/internal/testdocker"
	"github.com/open-nomad/open-nomad/internal/testnet"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// A group of containers has the network of its pause container, with an address on the bridge, a host
// name and a hosts file.
func TestDocker(t *testing.T) {
	if !testnet.IsPrivate() {
		t.Skip("needs root")
	}
	daemon := testdocker.Start(t)
	n := newNode(t, "", fmt.Sprintf("plugin \"docker\" {\n config {\n endpoint = %q\n infra_image = %q\n }\n}\n",
		daemon.Endpoint(), testdocker.Pause))
	text := strings.Replace(group("g", plain+"\n hostname = \"box\"\n isolate = true", "docker", "hostname; cat "+
		"/etc/hosts; echo $NOMAD_ALLOC_ADDR_http; exec sleep 3600"),
		"command = \"/bin/bash\"", fmt.Sprintf("image = %q\n ports = [\"http\"]\n command = \"sh\"", testdocker.Image), 1)
	n.run("box", text, group("other", plain+"\n }\n service {\n name = \"web\"\n port = \"http\"\n provider = \"nomad\"", "exec2", sleep))
	all := n.allocs("box", "running", 2)
	al := all["g"]
	logs := filepath.Join(n.dir, "data", "alloc", al.ID, "alloc", "logs", "t.stdout.0")
	want := "box\n127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n" + al.NetworkStatus.Address + " box\n" +
		al.NetworkStatus.AddressIPv6 + " box\n" + at(al) + "\n"
	var got []byte
	testpace.Until(t, "the container writes", func() (ok bool) {
		got, _ = os.ReadFile(logs)
		return strings.HasSuffix(string(got), at(al)+"\n")
	})
	if string(got) != want {
		t.Errorf("the container wrote %q, want %q", got, want)
	}
	held := filepath.Join(filepath.Dir(strings.TrimPrefix(daemon.Endpoint(), "unix://")), "exec", "netns")
	spaces, err := filepath.Glob(filepath.Join(held, "*"))
	if err != nil || len(spaces) == 0 {
		t.Fatalf("namespaces of the daemon: %v, %v", spaces, err)
	}
	served := 0
	for _, space := range spaces {
		if filepath.Base(space) == "default" {
			continue
		}
		n.serve(space, 8080)
		served++
	}
	if served != 1 {
		t.Fatalf("namespaces of the daemon: %v", spaces)
	}
	n.want(true, "", at(al))
	n.want(true, "", mapped(al))
	n.want(false, n.space(all["other"]), at(al))
	n.resolves(al)
	n.crash()
	n.allocs("box", "running", 2)
	n.resolves(al)
	n.want(true, "", mapped(al))
	n.want(false, n.space(all["other"]), at(al))
	if _, _, err := n.Client.Jobs().Deregister("box", false, nil); err != nil {
		t.Fatal(err)
	}
	n.allocs("box", "complete", 2)
	n.clean(all)
}

// resolves checks that a container asks the node, for services of its own namespace only.
func (n *node) resolves(al *api.Allocation) {
	n.t.Helper()
	if got := n.exec(al, "cat", "/etc/resolv.conf"); !strings.HasPrefix(got, "nameserver "+gateway+"\n") || strings.Count(got, "nameserver") != 1 {
		n.t.Errorf("resolv.conf = %q, want one server, %s", got, gateway)
	}
	host, _, err := net.SplitHostPort(n.registered("web", ""))
	if err != nil {
		n.t.Fatal(err)
	}
	var got string
	testpace.Until(n.t, "the container resolves the service", func() bool {
		got = n.exec(al, "nslookup", "-type=a", "web.service.nomad")
		return strings.HasSuffix(strings.TrimSpace(got), "Address: "+host)
	})
	if got = n.exec(al, "nslookup", "-type=a", "web.service.other.ns.nomad"); !strings.Contains(got, "REFUSED") {
		n.t.Errorf("the container asks for another namespace: %q, want REFUSED", got)
	}
}
