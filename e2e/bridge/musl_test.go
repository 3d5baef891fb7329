package bridge_test

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	miekg "github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/testnet"
)

// recursor is the DNS server of the node in a test. It knows one name.
const (
	recursor     = "198.51.100.53"
	knownName    = "known.example."
	knownAddress = "192.0.2.7"
	resolvConf   = "/etc/resolv.conf"
)

// The resolver of musl asks all servers of its file at once and uses the first answer. A service always resolves,
// although the recursor of the node answers at once that it does not exist.
func TestDNS_Musl(t *testing.T) {
	compiler, err := exec.LookPath("musl-gcc")
	if err != nil {
		testnet.Missing(t, "needs the package musl-tools")
	}
	if !testnet.IsPrivate() {
		testnet.Missing(t, "needs root")
	}
	withRecursor(t)
	n := newNode(t, "")
	n.run("web", group("a", plain+"\n }\n service {\n name = \"web\"\n port = \"http\"\n provider = \"nomad\"", "exec2", sleep))
	a := n.allocs("web", "running", 1)["a"]
	address, _, err := net.SplitHostPort(n.registered("web", ""))
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(n.dir, "data", "alloc", a.ID, "alloc", "resolve")
	if out, err := exec.Command(compiler, "-static", "-o", program, "testdata/resolve.c").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	const questions = 50
	got := n.exec(a, "/bin/sh", "-c", "exec \"$NOMAD_ALLOC_DIR/resolve\" "+knownName+strings.Repeat(" web.service.nomad", questions))
	if want := knownAddress + "\n" + strings.Repeat(address+"\n", questions); got != want {
		t.Errorf("the answers are %q, want %q", got, want)
	}
}

// withRecursor gives the node of a test a resolv.conf with a DNS server that knows one name.
func withRecursor(t *testing.T) {
	t.Helper()
	if out, err := exec.Command("ip", "addr", "add", recursor+"/32", "dev", "lo").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("ip", "addr", "del", recursor+"/32", "dev", "lo").Run() }) // with the namespace at the latest
	conn, err := net.ListenPacket("udp", recursor+":53")
	if err != nil {
		t.Fatal(err)
	}
	server := &miekg.Server{PacketConn: conn, Handler: miekg.HandlerFunc(func(w miekg.ResponseWriter, req *miekg.Msg) {
		resp := new(miekg.Msg).SetRcode(req, miekg.RcodeNameError)
		if q := req.Question[0]; strings.EqualFold(q.Name, knownName) {
			resp.Rcode = miekg.RcodeSuccess
			if q.Qtype == miekg.TypeA {
				resp.Answer = []miekg.RR{&miekg.A{A: net.ParseIP(knownAddress),
					Hdr: miekg.RR_Header{Name: q.Name, Rrtype: miekg.TypeA, Class: miekg.ClassINET}}}
			}
		}
		_ = w.WriteMsg(resp) // the test sees a missing answer
	})}
	done := make(chan error, 1)
	go func() { done <- server.ActivateAndServe() }()
	t.Cleanup(func() { conn.Close(); <-done })
	file := filepath.Join(t.TempDir(), "resolv.conf")
	if err := errors.Join(os.WriteFile(file, []byte("nameserver "+recursor+"\n"), 0o600), os.Chmod(file, 0o644)); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(file, resolvConf, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(resolvConf, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}
