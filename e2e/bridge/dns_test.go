package bridge_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	miekg "github.com/miekg/dns"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/internal/testnet"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// gateway is the address of the node on the bridge.
const gateway = "172.26.64.1"

// dig asks a server from a network namespace, "" for that of the node. It returns the status and the short answer.
func dig(t *testing.T, space string, args ...string) string {
	t.Helper()
	var out []byte
	err := testnet.Inside(space, func() (err error) {
		out, err = exec.Command("dig", append([]string{"+noall", "+comments", "+answer", "+time=2", "+tries=1"}, args...)...).CombinedOutput()
		return err
	})
	if err != nil {
		return err.Error()
	}
	var found []string
	for line := range strings.Lines(string(out)) {
		if _, status, ok := strings.Cut(line, "status: "); ok {
			status, _, _ = strings.Cut(status, ",")
			found = append(found, status)
		} else if words := strings.Fields(line); len(words) > 4 && !strings.HasPrefix(line, ";") {
			found = append(found, strings.Join(words[4:], " "))
		}
	}
	return strings.Join(found, " ")
}

// Tasks on the bridge and programs of the host resolve services, also after a crash of the agent. Names of
// another namespace are refused.
func TestDNS(t *testing.T) {
	if _, err := exec.LookPath("dig"); err != nil {
		testnet.Missing(t, err)
	}
	n := newNode(t, "")
	const service = plain + "\n }\n service {\n name = \"web\"\n port = \"http\"\n provider = \"nomad\""
	const resolve = "cat /etc/resolv.conf; until getent hosts web.service.nomad; do sleep 0.2; done; " +
		"getent hosts web.service.other.ns.nomad || echo refused; exec sleep 3600"
	n.run("web", group("a", service, "exec2", sleep), group("b", plain, "exec2", resolve), group("c", alone, "exec", resolve),
		group("d", narrow, "exec2", "cat /etc/resolv.conf; "+sleep))
	all := n.allocs("web", "running", 4)
	address := all["a"].AllocatedResources.Shared.Ports[0].HostIP
	for _, g := range []string{"b", "c"} {
		var got string
		testpace.Until(t, "group "+g+" resolves the service", func() bool {
			got = n.output(all[g])
			return strings.HasSuffix(got, "refused\n")
		})
		if !strings.HasPrefix(got, "nameserver "+gateway+"\n") || !strings.Contains(got, address) {
			t.Errorf("group %s wrote %q, want the gateway and %s", g, got, address)
		}
	}
	if got := n.output(all["d"]); strings.Contains(got, gateway) {
		t.Errorf("a group with destinations asks the node: %q", got)
	}
	for _, crashed := range []bool{false, true} {
		if crashed {
			n.askWhileDown(n.space(all["b"]))
		}
		for _, c := range []struct {
			what, space string
			args        []string
			want        string
		}{
			{"the host", "", []string{"@127.0.0.1", "-p", "8600", "web.service.consul"}, "NOERROR " + address},
			{"the host", "", []string{"@127.0.0.1", "-p", "8600", "none.service.nomad"}, "NXDOMAIN"},
			{"the host", "", []string{"@127.0.0.1", "-p", "8600", "web.service.other.ns.nomad"}, "REFUSED"},
			{"the host at the gateway", "", []string{"@" + gateway, "web.service.nomad"}, "REFUSED"},
			{"a group", n.space(all["b"]), []string{"@" + gateway, "web.service.nomad"}, "NOERROR " + address},
			{"an isolated group", n.space(all["c"]), []string{"@" + gateway, "+tcp", "web.service.nomad"}, "NOERROR " + address},
		} {
			var got string
			testpace.Until(t, c.what+" gets an answer", func() bool {
				got = dig(t, c.space, c.args...)
				return !strings.Contains(got, "exit status") && !strings.Contains(got, "SERVFAIL")
			})
			if got != c.want {
				t.Errorf("%s asks %q: %q, want %q", c.what, c.args, got, c.want)
			}
		}
	}
}

// askWhileDown kills the agent, sends a question from a group, and starts the agent. The question waits for it.
func (n *node) askWhileDown(space string) {
	n.t.Helper()
	if err := n.Kill(); err != nil {
		n.t.Fatal(err)
	}
	var conn *miekg.Conn
	err := testnet.Inside(space, func() (err error) {
		conn, err = miekg.DialTimeout("udp", gateway+":53", time.Second)
		return err
	})
	if err != nil {
		n.t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.WriteMsg(new(miekg.Msg).SetQuestion("c0000207.addr.dc1.nomad.", miekg.TypeA)); err != nil {
		n.t.Fatal(err)
	}
	n.start(n.Options)
	conn.SetReadDeadline(time.Now().Add(patience)) //nolint:errcheck // a socket supports deadlines
	got, err := conn.ReadMsg()
	if err != nil || len(got.Answer) != 1 {
		n.t.Errorf("the answer to a question that was asked while no agent ran: %v, %v", got, err)
	}
}

// output returns what a task has written.
func (n *node) output(al *api.Allocation) string {
	n.t.Helper()
	text, err := os.ReadFile(filepath.Join(n.dir, "data", "alloc", al.ID, "alloc", "logs", "t.stdout.0"))
	if err != nil {
		n.t.Fatal(err)
	}
	return string(text)
}
