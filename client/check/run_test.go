package check

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client/netns"
	"github.com/open-nomad/open-nomad/client/service"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// at returns an HTTP target at the address of a server.
func at(t *testing.T, addr net.Addr) *Target {
	t.Helper()
	a := addr.(*net.TCPAddr)
	return &Target{ID: "id", Name: "c", Service: "s", Group: "job.g[0]", Type: nomad.ServiceCheckHTTP, Timeout: 5 * time.Second,
		Interval: time.Second,
		Address:  service.Address{Host: a.IP.String(), Port: a.Port}, HTTP: HTTP{Protocol: "http", Method: "GET", Path: "/health?q=1"}}
}

func serve(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

func TestHTTPStatus(t *testing.T) {
	for code, want := range map[int]string{
		200: "success nomad: http ok", 201: "success body", 204: "success ", 301: "success body", 399: "success body",
		400: "failure body", 404: "failure body", 500: "failure body",
	} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(code)
				io.WriteString(w, "body")
			})
			r := (&probe{}).run(t.Context(), at(t, s.Listener.Addr()))
			if got := string(r.Status) + " " + r.Output; got != want || r.StatusCode != code {
				t.Errorf("result = %q, %d, want %q", got, r.StatusCode, want)
			}
		})
	}
}

func TestHTTPRequest(t *testing.T) {
	var got *http.Request
	var body []byte
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
	})
	target := at(t, s.Listener.Addr())
	p := &probe{version: "2.0.4"}
	if r := p.run(t.Context(), target); r.Status != message.CheckSuccess {
		t.Fatal(r.Output)
	}
	if want := "Nomad/2.0.4 (+https://developer.hashicorp.com/nomad/; " + runtime.Version() + ")"; got.UserAgent() != want {
		t.Errorf("user agent = %q, want %q", got.UserAgent(), want)
	}
	if got.Method != "GET" || got.RequestURI != "/health?q=1" || got.Host != s.Listener.Addr().String() ||
		got.Header.Get("Accept-Encoding") != "" {
		t.Errorf("request = %s %s %s %v", got.Method, got.RequestURI, got.Host, got.Header)
	}
	target.HTTP = HTTP{Protocol: "http", Method: "post", Path: "a%2Fb/c", Body: "hello",
		Header: map[string][]string{"host": {"web.example.com"}, "X-A": {"1", "2"}, "user-agent": {"mine"}}}
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	if r := p.run(t.Context(), target); r.Status != message.CheckSuccess {
		t.Fatal(r.Output)
	}
	if got.Method != "POST" || got.RequestURI != "/a%2Fb/c" || got.Host != "web.example.com" || string(body) != "hello" ||
		got.UserAgent() != "mine" || fmt.Sprint(got.Header["X-A"]) != "[1 2]" {
		t.Errorf("request = %s %s %s %v %q", got.Method, got.RequestURI, got.Host, got.Header, body)
	}
}

func TestInvalidRequests(t *testing.T) {
	var hits atomic.Int32
	s := serve(t, func(http.ResponseWriter, *http.Request) { hits.Add(1) })
	for _, h := range []HTTP{
		{Protocol: "http", Method: "GET", Path: "//169.254.169.254/latest"},
		{Protocol: "http", Method: "GET", Path: "http://169.254.169.254/latest"},
		{Protocol: "http", Method: "GET", Path: "/%zz"},
		{Protocol: "gopher", Method: "GET", Path: "/"},
		{Protocol: "http", Method: "G T", Path: "/"},
	} {
		target := at(t, s.Listener.Addr())
		target.HTTP = h
		if r := (&probe{}).run(t.Context(), target); r.Status != message.CheckFailure || r.StatusCode != 0 ||
			!strings.HasPrefix(r.Output, "nomad: ") {
			t.Errorf("%+v: %s %q", h, r.Status, r.Output)
		}
	}
	if hits.Load() != 0 {
		t.Errorf("the server got %d requests", hits.Load())
	}
}

func TestRedirects(t *testing.T) {
	var elsewhere atomic.Int32
	other := serve(t, func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) })
	var hops atomic.Int32
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		hops.Add(1)
		switch r.URL.Path {
		case "/same":
			http.Redirect(w, r, "/end", http.StatusFound)
		case "/absolute":
			http.Redirect(w, r, "http://"+r.Host+"/end", http.StatusFound)
		case "/other":
			http.Redirect(w, r, other.URL, http.StatusFound)
		case "/metadata":
			http.Redirect(w, r, "http://169.254.169.254/latest/meta-data", http.StatusFound)
		case "/https":
			http.Redirect(w, r, "https://"+r.Host+"/end", http.StatusFound)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/end":
			w.WriteHeader(http.StatusTeapot)
		}
	})
	for path, want := range map[string]int{"/same": 418, "/absolute": 418, "/other": 302, "/metadata": 302, "/https": 302, "/loop": 0} {
		target := at(t, s.Listener.Addr())
		target.HTTP.Path = path
		r := (&probe{}).run(t.Context(), target)
		if r.StatusCode != want || (r.Status == message.CheckSuccess) != (want == 302) {
			t.Errorf("%s: status %d, %s, %q, want %d", path, r.StatusCode, r.Status, r.Output, want)
		}
	}
	if elsewhere.Load() != 0 || hops.Load() > 5+2+maxRedirects {
		t.Errorf("%d requests to another server, %d to this one", elsewhere.Load(), hops.Load())
	}
}

// TestHostileTargets checks that a run ends at its timeout and keeps a bounded output.
func TestHostileTargets(t *testing.T) {
	forever := func(write func(c net.Conn) error) net.Addr {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer c.Close()
					if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
						return
					}
					for write(c) == nil {
					}
				}()
			}
		}()
		return l.Addr()
	}
	once := func(head string, then func(c net.Conn) error) func(c net.Conn) error {
		sent := atomic.Bool{}
		return func(c net.Conn) error {
			if !sent.Swap(true) {
				_, err := io.WriteString(c, head)
				return err
			}
			return then(c)
		}
	}
	endless := func(c net.Conn) error { _, err := c.Write(make([]byte, 32<<10)); return err }
	silent := func(c net.Conn) error { _, err := io.ReadFull(c, make([]byte, 1)); return err }
	for _, tc := range []struct {
		name   string
		addr   net.Addr
		code   int
		output int // at most
	}{
		{"endless body", forever(once("HTTP/1.1 500 x\r\n\r\n", endless)), 500, maxOutput},
		{"endless chunked body", forever(once("HTTP/1.1 500 x\r\nContent-Length: 99999999999\r\n\r\n", endless)), 500, maxOutput},
		{"slow body", forever(once("HTTP/1.1 500 x\r\nContent-Length: 10\r\n\r\nabc", silent)), 500, 3},
		{"no response", forever(silent), 0, 200},
		{"endless header", forever(once("HTTP/1.1 500 x\r\nA: ",
			func(c net.Conn) error { _, err := io.WriteString(c, strings.Repeat("a", 4096)); return err })), 0, 200},
		{"endless informational responses",
			forever(func(c net.Conn) error { _, err := io.WriteString(c, "HTTP/1.1 103 x\r\n\r\n"); return err }), 0, 200},
		{"not HTTP", forever(endless), 0, 300},
	} {
		t.Run(tc.name, func(t *testing.T) {
			target := at(t, tc.addr)
			target.Timeout = 300 * time.Millisecond
			start := time.Now()
			r := (&probe{}).run(t.Context(), target)
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("the run took %v", took)
			}
			if r.Status != message.CheckFailure || r.StatusCode != tc.code || len(r.Output) > tc.output {
				t.Errorf("result = %s, %d, %d bytes: %.200q", r.Status, r.StatusCode, len(r.Output), r.Output)
			}
		})
	}
}

func TestTLS(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(s.Close)
	strict, lax := at(t, s.Listener.Addr()), at(t, s.Listener.Addr())
	strict.HTTP.Protocol, lax.HTTP.Protocol, lax.SkipVerify = "https", "https", true
	p := &probe{}
	for _, tc := range []struct {
		target *Target
		want   message.CheckStatus
	}{{lax, message.CheckSuccess}, {strict, message.CheckFailure}} { // lax first: it must not change the others
		if r := p.run(t.Context(), tc.target); r.Status != tc.want {
			t.Errorf("skip_verify %t: %s %q", tc.target.SkipVerify, r.Status, r.Output)
		}
	}
}

func TestTCP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	target := at(t, l.Addr())
	target.Type = nomad.ServiceCheckTCP
	if r := (&probe{}).run(t.Context(), target); r.Status != message.CheckSuccess || r.Output != "nomad: tcp ok" {
		t.Errorf("open port: %s %q", r.Status, r.Output)
	}
	l.Close()
	if r := (&probe{}).run(t.Context(), target); r.Status != message.CheckFailure || !strings.Contains(r.Output, "refused") {
		t.Errorf("closed port: %s %q", r.Status, r.Output)
	}
}

// TestMetadataServices checks that a job cannot make the agent connect to a metadata service.
func TestMetadataServices(t *testing.T) {
	for _, host := range []string{"169.254.169.254", "fe80::1%lo", "::ffff:169.254.169.254", "fd00:ec2::254", "100.100.100.200",
		"168.63.129.16",
		"fd20:ce::254", "64:ff9b::169.254.169.254"} {
		for _, kind := range []string{nomad.ServiceCheckTCP, nomad.ServiceCheckHTTP, nomad.ServiceCheckGRPC} {
			target := at(t, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80})
			target.Type, target.Address.Host, target.Foreign, target.Timeout = kind, host, true, time.Second
			if r := (&probe{}).run(t.Context(), target); !strings.Contains(r.Output, errRefused.Error()) {
				t.Errorf("%s check of %s: %q", kind, host, r.Output)
			}
		}
	}
}

func TestScript(t *testing.T) {
	var got []string
	exec := func(out string, code int, err error) func(string) Exec {
		return func(task string) Exec {
			return func(ctx context.Context, command []string) ([]byte, *drivers.ExitResult, error) {
				got = append([]string{task}, command...)
				if errors.Is(err, context.DeadlineExceeded) {
					<-ctx.Done()
				}
				return []byte(out), &drivers.ExitResult{ExitCode: code}, err
			}
		}
	}
	target := &Target{Type: nomad.ServiceCheckScript, In: "t", Command: []string{"/bin/probe", "-v"}, Timeout: 50 * time.Millisecond}
	for _, tc := range []struct {
		name string
		exec func(string) Exec
		want string
	}{
		{"success", exec("fine", 0, nil), "success fine"},
		{"failure", exec("bad", 2, nil), "failure bad"},
		{"failure without output", exec("", 2, nil), "failure nomad: the script ended with exit code 2 and signal 0"},
		{"timeout", exec("", 0, context.DeadlineExceeded), "failure nomad: the script did not end within 50ms"},
		{"no exec", exec("", 0, errors.New("gone")), "failure nomad: gone"},
		{"long output", exec(strings.Repeat("x", 10000), 0, nil), "success " + strings.Repeat("x", maxOutput)},
		{"not UTF-8", exec("a\xff", 0, nil), "success a\uFFFD"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := (&probe{execIn: tc.exec}).run(t.Context(), target)
			if got := string(r.Status) + " " + r.Output; got != tc.want {
				t.Errorf("result = %q, want %q", got, tc.want)
			}
			if fmt.Sprint(got) != "[t /bin/probe -v]" {
				t.Errorf("ran %v", got)
			}
		})
	}
}

// TestInside checks that a check runs from the network namespace of the allocation, where nothing listens.
func TestInside(t *testing.T) {
	if !netns.Possible() {
		t.Skip("needs root: network namespaces")
	}
	set := netns.New(filepath.Join(t.TempDir(), "netns"))
	path, err := set.Make("a1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := set.Remove("a1"); err != nil {
			t.Error(err)
		}
	})
	outside := serve(t, func(http.ResponseWriter, *http.Request) {})
	var inside net.Listener
	if err := netns.Inside(path, func() (err error) { inside, err = net.Listen("tcp4", "127.0.0.1:0"); return err }); err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(299) })}
	go s.Serve(inside) //nolint:errcheck // it is closed below
	t.Cleanup(func() { s.Close() })
	p := &probe{netNS: path}
	for _, tc := range []struct {
		name   string
		addr   net.Addr
		inside bool
		code   int
	}{
		{"a listener in the namespace", inside.Addr(), true, 299},
		{"a listener of the host from the namespace", outside.Listener.Addr(), true, 0},
		{"a listener of the host from the host", outside.Listener.Addr(), false, 200},
		{"a listener in the namespace from the host", inside.Addr(), false, 0},
	} {
		target := at(t, tc.addr)
		target.Inside = tc.inside
		if r := p.run(t.Context(), target); r.StatusCode != tc.code {
			t.Errorf("%s: %d %q, want %d", tc.name, r.StatusCode, r.Output, tc.code)
		}
	}
}

// TestID checks the hash against a value computed by hand from the rule in services-network.md.
func TestID(t *testing.T) {
	a := &nomad.Allocation{ID: "a1", TaskGroup: "g", Name: "job.g[0]", Job: &nomad.Job{TaskGroups: []*nomad.TaskGroup{{Name: "g",
		Services: []*nomad.Service{{Name: "web", Provider: "nomad", PortLabel: "80", Checks: []*nomad.ServiceCheck{{
			Name: "up", Type: "http", PortLabel: "http", OnUpdate: "ignore", AddressMode: "host", Interval: time.Second, Timeout: 2 * time.Second,
			Protocol: "https", Path: "/x", Method: "PUT", TLSSkipVerify: true, Body: "b", Header: map[string][]string{"a": {"b"}}}}}}}}}}
	w := service.OfGroup(a, &nomad.Node{ID: "n"}, "global", nil)
	text := "a1g" + "" + "up" + "http" + "http" + "ignore" + "host" + "\x00\xca\x9a\x3b\x00\x00\x00\x00" + "\x00\x94\x35\x77\x00\x00\x00\x00" +
		"https" + "/x" + "PUT" + "true"
	sum := sha256.Sum256([]byte(text))
	got := Targets(&w)[0]
	if want := hex.EncodeToString(sum[:]); string(got.ID) != want {
		t.Errorf("ID = %s, want %s", got.ID, want)
	}
	if got.Mode != message.Readiness || got.Fault == nil || !strings.Contains(got.Fault.Error(), `invalid port: "http"`) {
		t.Errorf("mode %s, fault %v", got.Mode, got.Fault)
	}
}

func TestTargetAddress(t *testing.T) {
	status := &nomad.AllocNetworkStatus{Address: "172.26.0.2"}
	for _, tc := range []struct {
		name            string
		service         nomad.Service
		check           nomad.ServiceCheck
		want            string
		foreign, inside bool
	}{
		{"host by default", nomad.Service{PortLabel: "http"}, nomad.ServiceCheck{}, "10.0.0.1:23000", false, false},
		{"auto if the service has an address", nomad.Service{PortLabel: "http", Address: "example.com"}, nomad.ServiceCheck{},
			"example.com:23000", true, true},
		{"alloc", nomad.Service{PortLabel: "http"}, nomad.ServiceCheck{AddressMode: "alloc"}, "172.26.0.2:80", false, true},
		{"its own port", nomad.Service{PortLabel: "http"}, nomad.ServiceCheck{PortLabel: "9"}, ":9", false, true},
		{"mode of the check wins", nomad.Service{PortLabel: "http", Address: "example.com"}, nomad.ServiceCheck{AddressMode: "host"},
			"10.0.0.1:23000", false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, c := tc.service, tc.check
			s.Name, s.Provider, s.Checks = "web", "nomad", []*nomad.ServiceCheck{&c}
			a := &nomad.Allocation{ID: "a1", TaskGroup: "g",
				Job: &nomad.Job{TaskGroups: []*nomad.TaskGroup{{Name: "g", Services: []*nomad.Service{&s}}}},
				AllocatedResources: &nomad.AllocatedResources{Shared: nomad.AllocatedSharedResources{
					Ports: nomad.AllocatedPorts{{Label: "http", Value: 23000, To: 80, HostIP: "10.0.0.1"}}}}}
			w := service.OfGroup(a, &nomad.Node{ID: "n"}, "global", status)
			got := Targets(&w)[0]
			if addr := fmt.Sprintf("%s:%d", got.Address.Host, got.Address.Port); got.Fault != nil || addr != tc.want || got.Foreign != tc.foreign ||
				got.Inside != tc.inside {
				t.Errorf("%s, foreign %t, inside %t, fault %v", addr, got.Foreign, got.Inside, got.Fault)
			}
			if got.Name != `service: "web" check` || got.Timeout != time.Second || got.Interval != time.Second {
				t.Errorf("defaults: %q, %v, %v", got.Name, got.Timeout, got.Interval)
			}
		})
	}
}
