package artifact_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client/artifact"
	"github.com/open-nomad/open-nomad/nomad"
)

// Redirects lead only to http and https, and not to addresses of the machine or its cloud.
func TestRedirects(t *testing.T) {
	h := newHarness(t, config())
	canary := filepath.Join(h.local, "canary")
	if err := os.WriteFile(canary, []byte("canary"), 0o644); err != nil {
		t.Fatal(err)
	}
	targets := map[string]struct{ to, want string }{
		"file":          {"file://" + canary, `redirect to scheme "file" refused`},
		"ftp":           {"ftp://127.0.0.1/x", `redirect to scheme "ftp" refused`},
		"git":           {"git::http://127.0.0.1/x", `scheme`},
		"aws":           {"http://169.254.169.254/latest/meta-data/", "connection to 169.254.169.254 refused: link-local address"},
		"mapped":        {"http://[::ffff:169.254.169.254]/x", "refused: link-local address"},
		"link-local 6":  {"http://[fe80::1%25lo]/x", "refused: link-local address"},
		"nat64":         {"http://[64:ff9b::a9fe:a9fe]/x", "refused: link-local address"},
		"aws 6":         {"http://[fd00:ec2::254]/x", "refused: metadata service"},
		"alibaba":       {"http://100.100.100.200/x", "refused: metadata service"},
		"azure":         {"http://168.63.129.16/x", "refused: metadata service"},
		"unspecified":   {"http://0.0.0.0/x", "refused: unspecified address"},
		"unspecified 6": {"http://[::]/x", "refused: unspecified address"},
		"multicast":     {"http://224.0.0.1/x", "refused: multicast address"},
	}
	routes := map[string]http.HandlerFunc{
		"/loop": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/loop", http.StatusFound) },
		"/once": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/end", http.StatusFound) },
		"/end":  content("end"),
	}
	for name, c := range targets {
		routes["/"+strings.ReplaceAll(name, " ", "-")] = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", c.to)
			w.WriteHeader(http.StatusFound)
		}
	}
	url := serve(t, routes)
	for name, c := range targets {
		h.refused(&nomad.TaskArtifact{GetterSource: url + "/" + strings.ReplaceAll(name, " ", "-")}, c.want)
		if strings.HasPrefix(c.to, "http:") { // the same address as the source
			h.refused(&nomad.TaskArtifact{GetterSource: c.to}, c.want)
		}
	}
	h.refused(&nomad.TaskArtifact{GetterSource: url + "/loop"}, "stopped after 10 redirects")
	h.gets(&nomad.TaskArtifact{GetterSource: url + "/once"})
	h.has("local/once", "end")
	h.refused(&nomad.TaskArtifact{GetterSource: "file://" + canary}, "local files are not supported")
}

// The header of Terraform that selects another source is ignored.
func TestTerraformHeader(t *testing.T) {
	h := newHarness(t, config())
	url := serve(t, map[string]http.HandlerFunc{"/": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Terraform-Get", "git::file:///etc")
		io.WriteString(w, `<html><head><meta name="terraform-get" content="git::file:///etc"></head></html>`) //nolint:errcheck // a response
	}})
	h.refused(&nomad.TaskArtifact{GetterSource: url + "/dir/"}, "nothing was downloaded")
	h.refused(&nomad.TaskArtifact{GetterSource: url + "/x", GetterMode: "dir"}, "nothing was downloaded")
}

// raw starts a server that answers each connection with write.
func raw(t *testing.T, write func(c net.Conn)) string {
	t.Helper()
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
				if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
					write(c)
				}
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

func TestHostileBodies(t *testing.T) {
	h := newHarness(t, config()) // 8 MiB
	block := make([]byte, 64<<10)
	endless := func(c io.Writer) {
		for {
			if _, err := c.Write(block); err != nil {
				return
			}
		}
	}
	for _, c := range []struct {
		name, want string
		write      func(c net.Conn)
	}{
		{"endless", "response is larger than the limit of 8388608 bytes", func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
			endless(c)
		}},
		{"endless chunks", "response is larger than the limit of 8388608 bytes", func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
			for {
				if _, err := fmt.Fprintf(c, "%x\r\n%s\r\n", len(block), block); err != nil {
					return
				}
			}
		}},
		{"large by its length", "response is larger than the limit of 8388608 bytes", func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 8388609\r\n\r\n")
		}},
		{"short", "the response ended after 4 bytes, before its declared length", func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\ntext")
		}},
		{"ended midway", "the response ended after 4 bytes", func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\ntext")
		}},
		{"reset", "reset by peer", func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"+strings.Repeat("x", 50_000))
			c.(*net.TCPConn).SetLinger(0)
		}},
		{"headers of 1 MiB", "server response headers exceeded 1048576 bytes", func(c net.Conn) {
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nX-Long: %s\r\n\r\ntext", strings.Repeat("x", 1<<20))
		}},
		{"many headers", "server response headers exceeded 1048576 bytes", func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\n")
			for i := 0; ; i++ {
				if _, err := fmt.Fprintf(c, "X-%d: x\r\n", i); err != nil {
					return
				}
			}
		}},
		{"not HTTP", "malformed HTTP", func(c net.Conn) { io.WriteString(c, "hello\n") }},
		{"two lengths", "Content-Length", func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 4\r\n\r\ntext")
		}},
		{"negative length", "Content-Length", func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\ntext")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h.t = t
			h.refused(&nomad.TaskArtifact{GetterSource: raw(t, c.write) + "/file"}, c.want)
		})
	}
	h.t = t
	// A body without a length up to the limit is complete.
	h.gets(&nomad.TaskArtifact{GetterSource: raw(t, func(c net.Conn) {
		io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n") //nolint:errcheck // a response
		c.Write(make([]byte, 8<<20))                 //nolint:errcheck // as above
	}) + "/full"})
	if info, err := os.Stat(filepath.Join(h.local, "full")); err != nil || info.Size() != 8<<20 {
		t.Errorf("full: %v, %v", info, err)
	}
}

// A slow body ends with the timeout of its kind, and a slow download does not hold up the others.
func TestSlowBody(t *testing.T) {
	cfg := config()
	cfg.Timeouts.HTTP, cfg.Timeouts.Git, cfg.Timeouts.Hg, cfg.Timeouts.GCS, cfg.Timeouts.S3 = time.Second, time.Second, time.Second, time.Second, time.Second
	h := newHarness(t, cfg)
	slow := raw(t, func(c net.Conn) {
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n") //nolint:errcheck // a response
		for range time.Tick(50 * time.Millisecond) {
			if _, err := io.WriteString(c, "x"); err != nil {
				return
			}
		}
	})
	good := serve(t, map[string]http.HandlerFunc{"/a": content("a")})
	silent := raw(t, func(c net.Conn) { io.Copy(io.Discard, c) }) //nolint:errcheck // until the client closes
	results := h.Fetch(t.Context(), h.task, []*nomad.TaskArtifact{
		{GetterSource: slow + "/s", RelativeDest: "local/"}, {GetterSource: good + "/a", RelativeDest: "local/"},
		{GetterSource: silent + "/t", RelativeDest: "local/"},
	})
	for i, want := range []string{"timed out", "", "timed out"} {
		if err := results[i].Err; (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("artifact %d: %v, want %q", i, err, want)
		}
	}
	h.clean()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if r := h.Fetch(ctx, h.task, []*nomad.TaskArtifact{{GetterSource: silent + "/t", RelativeDest: "local/"}})[0]; r.Err == nil {
		t.Error("a cancelled download succeeds")
	}
	h.clean()
}

// Neither the text of an error nor its URL contains credentials.
func TestCredentialsInErrors(t *testing.T) {
	h := newHarness(t, config())
	url := serve(t, map[string]http.HandlerFunc{
		"/a": func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no", http.StatusForbidden) },
		"/b": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "http://u:redirectpw@127.0.0.1:1/x?X-Amz-Signature=redirectsig")
			w.WriteHeader(http.StatusFound)
		},
	})
	host := strings.TrimPrefix(url, "http://")
	for _, source := range []string{
		"http://user:passw0rd@" + host + "/a?token=querytoken", "http://user:passw0rd@" + host + "/b?token=querytoken",
		"http://user:passw0rd@127.0.0.1:1/x?token=querytoken",
		"git::http://user:passw0rd@127.0.0.1:1/x?token=querytoken&ref=-querytoken",
	} {
		r := h.get(&nomad.TaskArtifact{GetterSource: source, GetterHeaders: map[string]string{"Authorization": "Bearer headertoken"},
			GetterOptions: map[string]string{"aws_access_key_secret": "optionsecret"}})
		if r.Err == nil {
			t.Errorf("Fetch(%s) succeeds", source)
			continue
		}
		for _, secret := range []string{"passw0rd", "querytoken", "headertoken", "optionsecret", "redirectpw", "redirectsig"} {
			if strings.Contains(r.Err.Error(), secret) {
				t.Errorf("Fetch(%s) = %v, which contains %s", source, r.Err, secret)
			}
		}
	}
}

// Many downloads at the same time do not exchange their content (CVE-2022-24686).
func TestManyAtOnce(t *testing.T) {
	f, err := artifact.New(config(), discard)
	if err != nil {
		t.Fatal(err)
	}
	url := serve(t, map[string]http.HandlerFunc{"/": func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, strings.Repeat(r.URL.RawQuery+"\n", 1000)) //nolint:errcheck // a response
	}})
	done := make(chan struct{})
	for n := range 5 {
		h := withFetcher(t, f)
		go func() {
			defer func() { done <- struct{}{} }()
			var list []*nomad.TaskArtifact
			for i := range 8 {
				list = append(list, &nomad.TaskArtifact{GetterSource: fmt.Sprintf("%s/file?n=%d.%d", url, n, i),
					RelativeDest: fmt.Sprintf("local/%d/", i)})
			}
			for i, r := range h.Fetch(t.Context(), h.task, list) {
				want := strings.Repeat(fmt.Sprintf("n=%d.%d\n", n, i), 1000)
				if r.Err != nil || r.Digest != digest(want) {
					t.Errorf("artifact %d.%d: %+v", n, i, r)
					continue
				}
				h.has(fmt.Sprintf("local/%d/file", i), want)
			}
		}()
	}
	for range 5 {
		<-done
	}
}
