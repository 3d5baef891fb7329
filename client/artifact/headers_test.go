package artifact_test

import (
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
)

// witness is a server that records the requests it receives. It redirects /to/<hexadecimal URL>.
type witness struct {
	*httptest.Server
	mu   sync.Mutex
	seen []string // headers of all requests
}

func newWitness(t *testing.T, start func(http.Handler) *httptest.Server) *witness {
	t.Helper()
	w := &witness{}
	w.Server = start(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		w.seen = append(w.seen, fmt.Sprint(r.Header))
		w.mu.Unlock()
		switch {
		case strings.HasPrefix(r.URL.Path, "/to/"):
			to, err := hex.DecodeString(strings.TrimPrefix(r.URL.Path, "/to/"))
			if err != nil {
				t.Error(err)
			}
			http.Redirect(rw, r, string(to), http.StatusTemporaryRedirect)
		case r.URL.Path == "/SUMS":
			fmt.Fprintf(rw, "%s  file\n", digest("text")[7:])
		default:
			fmt.Fprint(rw, "text")
		}
	}))
	t.Cleanup(w.Close)
	return w
}

// got returns the requests since the last call, and how many of them have a text.
func (w *witness) got(text string) (requests, with int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.seen {
		if strings.Contains(h, text) {
			with++
		}
	}
	requests, w.seen = len(w.seen), nil
	return requests, with
}

// to returns the path that redirects to a URL.
func to(url string) string { return "/to/" + hex.EncodeToString([]byte(url)) }

// TestHeaders_Origin checks that the headers of a job reach the origin of the source only: not another scheme, host or
// port, however the request gets there.
func TestHeaders_Origin(t *testing.T) {
	h := newHarness(t, config())
	home := newWitness(t, httptest.NewServer)
	port := newWitness(t, httptest.NewServer)
	tls := newWitness(t, httptest.NewTLSServer)
	name := strings.Replace(home.URL, "127.0.0.1", "localhost", 1)
	const secret = "s.SECRETHEADER"
	for what, c := range map[string]struct {
		source  string
		witness *witness // the last server
		before  int      // requests of it with the headers
		after   int      // without
	}{
		"none":                {home.URL + "/file", home, 1, 0},
		"the same origin":     {home.URL + to("/file"), home, 2, 0},
		"another port":        {home.URL + to(port.URL+"/file"), port, 0, 1},
		"another scheme":      {home.URL + to(tls.URL+"/file"), tls, 0, 1},
		"another host":        {home.URL + to(name+"/file"), home, 1, 1},
		"there and back":      {home.URL + to(port.URL+to(home.URL+"/file")), home, 1, 1},
		"a list of checksums": {home.URL + "/file?checksum=file:" + port.URL + "/SUMS", port, 0, 1},
		"password in the URL": {strings.Replace(home.URL, "//", "//u:"+secret+"@", 1) + to(port.URL+"/file"), port, 0, 1},
		"option in the URL":   {home.URL + to(port.URL+"/file") + "?token=" + secret, port, 0, 1},
	} {
		t.Run(what, func(t *testing.T) {
			home.got("")
			port.got("")
			tls.got("")
			h.gets(&nomad.TaskArtifact{GetterSource: c.source, GetterInsecure: true, GetterHeaders: map[string]string{
				"X-Vault-Token": secret, "Authorization": "Bearer " + secret, "Cookie": "a=" + secret, "Private-Token": secret}})
			requests, with := c.witness.got(secret)
			if requests != c.before+c.after || with != c.before {
				t.Errorf("%d requests, %d with the secret, want %d and %d", requests, with, c.before+c.after, c.before)
			}
		})
	}
}

// TestVCS_RedirectedPassword checks that git and hg do not send the password of a URL to the target of a redirect.
func TestVCS_RedirectedPassword(t *testing.T) {
	h := newHarness(t, config())
	var mu sync.Mutex
	var asked []string
	other := serve(t, map[string]http.HandlerFunc{"/": func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.Header.Get("Authorization"))
		mu.Unlock()
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
	}})
	home := serve(t, map[string]http.HandlerFunc{"/": func(w http.ResponseWriter, r *http.Request) {
		if _, _, ok := r.BasicAuth(); !ok {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		http.Redirect(w, r, other+r.URL.Path+"?"+r.URL.RawQuery, http.StatusFound)
	}})
	for _, kind := range []string{"git", "hg"} {
		mu.Lock()
		asked = nil
		mu.Unlock()
		r := h.get(&nomad.TaskArtifact{GetterSource: kind + "::" + strings.Replace(home, "//", "//user:secret@", 1) + "/repo"})
		if r.Err == nil {
			t.Errorf("%s: a server without a repository has one", kind)
		}
		mu.Lock()
		if slices.ContainsFunc(asked, func(s string) bool { return s != "" }) {
			t.Errorf("%s: the target of the redirect got %q", kind, asked)
		}
		if refused := r.Err != nil && strings.Contains(r.Err.Error(), "the password"); kind == "hg" && !refused {
			t.Errorf("hg: the error is %v, and does not name the reason", r.Err)
		}
		mu.Unlock()
	}
}

// TestS3_RedirectedToken checks that the session token of a job does not reach the target of a redirect. The
// library removes it. The addresses are not those of loopback, for which the library would not use the proxy.
func TestS3_RedirectedToken(t *testing.T) {
	h := newHarness(t, config())
	address := outside(t)
	start := func(handler http.Handler) *httptest.Server {
		s := httptest.NewUnstartedServer(handler)
		l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
		if err != nil {
			t.Fatal(err)
		}
		s.Listener.Close()
		s.Listener = l
		s.Start()
		return s
	}
	other := newWitness(t, start)
	home := newWitness(t, start)
	keys := map[string]string{"aws_access_key_id": "id", "aws_access_key_secret": "key", "aws_access_token": "session-token"}
	r := h.get(&nomad.TaskArtifact{GetterSource: "s3::" + home.URL + to(other.URL+"/bucket/file"), GetterOptions: keys, GetterMode: "file",
		RelativeDest: "local/file"})
	if requests, with := other.got("session-token"); requests == 0 || with != 0 {
		t.Errorf("the target of the redirect got %d requests, %d with the token", requests, with)
	}
	if _, with := home.got("session-token"); with == 0 {
		t.Errorf("the source did not get the token: %v", r.Err)
	}
}

// outside returns an address of this machine that is not a loopback address.
func outside(t *testing.T) string {
	t.Helper()
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && n.IP.To4() != nil {
			return n.IP.String()
		}
	}
	t.Skip("needs an address other than those of loopback")
	return ""
}
