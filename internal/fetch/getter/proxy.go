package getter

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/open-nomad/open-nomad/internal/dialguard"
	"github.com/open-nomad/open-nomad/internal/fetch"
)

// proxy is an HTTP proxy on a loopback address. Git, Mercurial and the libraries for S3 and GCS connect
// by themselves; through the proxy, their connections are checked as those of the program (dial). Other
// processes of the node cannot use it without its password.
type proxy struct {
	server   *http.Server
	password string
	done     chan struct{}
	only     string                // origin; "" for any
	refused  atomic.Pointer[error] // the latest
}

// proxyVars are the variables that set a proxy. One of the operator makes the program not start its own.
var proxyVars = []string{"http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"}

// errElsewhere is the reason why a connection to another origin is refused.
var errElsewhere = errors.New("connection to another server refused: hg would send it the password of the source's URL")

// onlyOrigin returns the only origin that a download may connect to, or "". Mercurial answers every server that asks
// for a password with that of the URL, also the target of a redirect.
func onlyOrigin(s fetch.Source, kind fetch.Kind) string {
	if kind == fetch.Hg && s.HasPassword() {
		return s.Origin()
	}
	return ""
}

// startProxy starts a proxy for connections to one origin, or to any. It sets the variables for this process and its
// children. If the operator has allowed variables of a proxy, it returns nil.
func startProxy(only string) (*proxy, error) {
	for _, name := range proxyVars {
		if os.Getenv(name) != "" {
			return nil, nil
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start the proxy that checks connections: %w", err)
	}
	p := &proxy{password: rand.Text(), only: only, done: make(chan struct{})}
	p.server = &http.Server{
		Handler: p, ReadHeaderTimeout: time.Minute, MaxHeaderBytes: maxHeaders,
		ErrorLog: log.New(io.Discard, "", 0), // failed connections are errors of the clients
	}
	go func() {
		defer close(p.done)
		p.server.Serve(listener) //nolint:errcheck // ends with ErrServerClosed
	}()
	address := fmt.Sprintf("http://fetch:%s@%s", p.password, listener.Addr())
	for _, name := range proxyVars {
		if err := os.Setenv(name, address); err != nil {
			p.stop()
			return nil, fmt.Errorf("set %s: %w", name, err)
		}
	}
	for _, name := range []string{"no_proxy", "NO_PROXY"} {
		if err := os.Unsetenv(name); err != nil {
			p.stop()
			return nil, fmt.Errorf("unset %s: %w", name, err)
		}
	}
	return p, nil
}

// explain adds the reason to an error that a refused connection has caused. The clients of the proxy do not
// show it.
func (p *proxy) explain(err error) error {
	if p == nil || err == nil || p.refused.Load() == nil {
		return err
	}
	return fmt.Errorf("%w: %w", *p.refused.Load(), err)
}

// stop ends the proxy.
func (p *proxy) stop() {
	if p == nil {
		return
	}
	p.server.Close() //nolint:errcheck // open tunnels end with the process
	<-p.done
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	want := "Basic " + base64.StdEncoding.EncodeToString([]byte("fetch:"+p.password))
	if subtle.ConstantTimeCompare([]byte(r.Header.Get("Proxy-Authorization")), []byte(want)) != 1 {
		w.Header().Set("Proxy-Authenticate", `Basic realm="fetch"`)
		http.Error(w, "proxy password required", http.StatusProxyAuthRequired)
		return
	}
	target := r.URL
	if r.Method == http.MethodConnect {
		target = &url.URL{Scheme: "https", Host: r.Host}
	}
	if p.only != "" && fetch.Origin(target) != p.only {
		p.fail(w, errElsewhere)
		return
	}
	if r.Method == http.MethodConnect {
		p.tunnel(w, r)
		return
	}
	p.forward().ServeHTTP(w, r)
}

// fail answers a request whose connection failed.
func (p *proxy) fail(w http.ResponseWriter, err error) {
	var refused *dialguard.Refused
	if errors.As(err, &refused) {
		err = refused
	}
	if refused != nil || errors.Is(err, errElsewhere) {
		p.refused.Store(&err)
	}
	http.Error(w, err.Error(), http.StatusBadGateway)
}

// forward returns a handler that passes on requests without TLS.
func (p *proxy) forward() http.Handler {
	return &httputil.ReverseProxy{
		Rewrite:      func(*httputil.ProxyRequest) {}, // headers of the proxy are removed before
		Transport:    forwarded,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) { p.fail(w, err) },
		ErrorLog:     log.New(io.Discard, "", 0),
	}
}

// forwarded makes the requests of forward.
var forwarded = &http.Transport{DialContext: dial, MaxResponseHeaderBytes: maxHeaders, DisableCompression: true}

// tunnel connects the client with the host that it names, in both directions.
func (p *proxy) tunnel(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
	defer cancel()
	far, err := dial(ctx, "tcp", r.Host)
	if err != nil {
		p.fail(w, err)
		return
	}
	defer far.Close()
	near, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer near.Close()
	if _, err := io.WriteString(near, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return // the client is gone
	}
	var both sync.WaitGroup
	both.Go(func() { pipe(far, buffered) })
	both.Go(func() { pipe(near, far) })
	both.Wait()
}

// pipe copies until end of file, and then closes the writing side of to.
func pipe(to net.Conn, from io.Reader) {
	io.Copy(to, from) //nolint:errcheck // the other end reports a broken connection
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		half.CloseWrite() //nolint:errcheck // as above
	}
}
