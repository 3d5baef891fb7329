package certs_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/certs"
	"github.com/open-nomad/open-nomad/internal/pki"
	"github.com/open-nomad/open-nomad/internal/testnet"
	"github.com/open-nomad/open-nomad/internal/testpki"
)

// pair connects two sockets.
func pair(t *testing.T) (net.Conn, net.Conn) {
	t.Helper()
	ln := testnet.Listen(t)
	near, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []net.Conn{near, far} {
		c.SetDeadline(time.Now().Add(10 * time.Second))
		t.Cleanup(func() { c.Close() })
	}
	return near, far
}

// meet connects a caller with a server of a region and returns the error of each side.
func meet(t *testing.T, caller, server *certs.Store, region string) (near, far *certs.Conn, called, accepted error) {
	t.Helper()
	a, b := pair(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		far, accepted = server.AcceptRPC(context.Background(), b)
		if accepted == nil {
			_, accepted = far.Write([]byte("!")) // a caller learns of a refusal by it
		} else {
			b.Close()
		}
	}()
	near, called = caller.DialRPC(context.Background(), a, region)
	if called == nil {
		_, called = near.Read(make([]byte, 1))
	} else {
		a.Close()
	}
	<-done
	return near, far, called, accepted
}

func TestWhoMayConnect(t *testing.T) {
	ca, other := testpki.New(t), testpki.New(t)
	server := ca.Agent("server.global.nomad")
	names := func(c, _ *certs.Config) { c.VerifyServerHostname = true }
	for name, c := range map[string]struct {
		caller testpki.Files
		edit   func(caller, server *certs.Config)
		region string // the region that the caller expects; "" is global
		want   string // in the error of either side; "" means both accept
	}{
		"a server":                   {caller: ca.Agent("server.global.nomad")},
		"a client":                   {caller: ca.Agent("client.global.nomad"), edit: names},
		"a server of another region": {caller: ca.Agent("server.far.nomad")},
		"by the common name":         {caller: ca.Issue(pki.CertOptions{CommonName: "client.global.nomad", Client: true})},
		"a client of another region": {caller: ca.Agent("client.far.nomad"), want: "invalid role or region for certificate"},
		"no role":                    {caller: ca.Agent("cli.global.nomad"), want: "invalid role or region"},
		"too short":                  {caller: ca.Agent("server.nomad"), want: "invalid role or region"},
		"another domain":             {caller: ca.Agent("server.global.consul"), want: "invalid role or region"},
		"no role asked":              {caller: ca.Agent("x"), edit: func(_, s *certs.Config) { s.VerifyServerHostname = false }},
		"signed by another CA": {caller: other.Agent("server.global.nomad"), edit: func(c, _ *certs.Config) { c.CAFile = server.CA },
			want: "unknown authority"},
		"it trusts another CA": {caller: ca.Agent("client.global.nomad"), edit: func(c, _ *certs.Config) { c.CAFile = other.Agent("x").CA },
			want: "unknown authority"},
		"it expects another region": {caller: ca.Agent("client.global.nomad"), region: "far", edit: names,
			want: "not server.far.nomad"},
		"it checks no name": {caller: ca.Agent("client.global.nomad"), region: "far"},
	} {
		t.Run(name, func(t *testing.T) {
			config, its := c.caller.Config(), server.Config()
			config.VerifyServerHostname, its.Server = false, true
			if c.edit != nil {
				c.edit(&config, &its)
			}
			if c.region == "" {
				c.region = "global"
			}
			near, far, called, accepted := meet(t, testpki.Open(t, config), testpki.Open(t, its), c.region)
			switch said := errors.Join(called, accepted); {
			case c.want == "" && said != nil:
				t.Errorf("refused: %v", said)
			case c.want != "" && (called == nil || accepted == nil || !strings.Contains(said.Error(), c.want)):
				t.Errorf("caller: %v, server: %v, want %q", called, accepted, c.want)
			case c.want == "" && (near.Peer() == nil || far.Peer() == nil || !near.Peer().Has("server.global.nomad")):
				t.Error("a side has no peer name")
			}
		})
	}
}

// shake does a handshake with the server, as a client of crypto/tls with the given configuration.
func shake(t *testing.T, server *certs.Store, client *tls.Config) (tls.ConnectionState, error) {
	t.Helper()
	a, b := pair(t)
	done := make(chan error, 1)
	go func() {
		far, err := server.AcceptRPC(context.Background(), b)
		if err == nil {
			_, err = far.Write([]byte("!"))
		} else {
			b.Close()
		}
		done <- err
	}()
	conn := tls.Client(a, client)
	_, err := conn.Read(make([]byte, 1))
	if err != nil {
		a.Close()
	}
	return conn.ConnectionState(), errors.Join(err, <-done)
}

func keyPair(t *testing.T, f testpki.Files) tls.Certificate {
	t.Helper()
	p, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestHandshakesThatAreRefused(t *testing.T) {
	ca := testpki.New(t)
	server := testpki.Open(t, ca.Agent("server.global.nomad").Config())
	good := keyPair(t, ca.Agent("client.global.nomad"))
	expired := keyPair(t, ca.Issue(pki.CertOptions{DNSNames: []string{"client.global.nomad"}, Client: true, Days: 1,
		At: time.Now().AddDate(0, 0, -3)}))
	early := keyPair(t, ca.Issue(pki.CertOptions{DNSNames: []string{"client.global.nomad"}, Client: true, Days: 1,
		At: time.Now().AddDate(0, 0, 3)}))
	inward := keyPair(t, ca.Issue(pki.CertOptions{DNSNames: []string{"server.global.nomad"}, Server: true}))
	var cbc []uint16
	for _, s := range slices.Concat(tls.CipherSuites(), tls.InsecureCipherSuites()) {
		if strings.Contains(s.Name, "_CBC_") {
			cbc = append(cbc, s.ID)
		}
	}
	if len(cbc) < 5 {
		t.Fatalf("only %d CBC suites exist", len(cbc))
	}
	for name, c := range map[string]struct {
		conf *tls.Config
		want string // "" means accepted
	}{
		"valid":              {&tls.Config{Certificates: []tls.Certificate{good}}, ""},
		"in TLS 1.2":         {&tls.Config{Certificates: []tls.Certificate{good}, MaxVersion: tls.VersionTLS12}, ""},
		"no certificate":     {&tls.Config{}, "didn't provide a certificate"},
		"expired":            {&tls.Config{Certificates: []tls.Certificate{expired}}, "expired"},
		"not yet valid":      {&tls.Config{Certificates: []tls.Certificate{early}}, "not yet valid"},
		"only for accepting": {&tls.Config{Certificates: []tls.Certificate{inward}}, "key usage"},
		"only CBC": {&tls.Config{Certificates: []tls.Certificate{good}, MaxVersion: tls.VersionTLS12, CipherSuites: cbc},
			"no cipher suite"},
		"TLS 1.1": {&tls.Config{Certificates: []tls.Certificate{good}, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11},
			"unsupported versions"},
	} {
		t.Run(name, func(t *testing.T) {
			c.conf.InsecureSkipVerify = true
			_, err := shake(t, server, c.conf)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("handshake: %v, want %q", err, c.want)
			}
		})
	}
}

// A session is never resumed: the certificate is verified each time.
func TestSessionsAreNotResumed(t *testing.T) {
	ca := testpki.New(t)
	server := testpki.Open(t, ca.Agent("server.global.nomad").Config())
	for _, max := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		conf := &tls.Config{Certificates: []tls.Certificate{keyPair(t, ca.Agent("client.global.nomad"))}, InsecureSkipVerify: true,
			ServerName: "server.global.nomad", MaxVersion: max, ClientSessionCache: tls.NewLRUClientSessionCache(4)}
		for range 3 {
			state, err := shake(t, server, conf)
			if err != nil || state.DidResume {
				t.Errorf("%s: resumed is %t, %v", tls.VersionName(max), state.DidResume, err)
			}
		}
	}
}

func TestWhatIsWrongIsNamed(t *testing.T) {
	ca := testpki.New(t)
	good := ca.Agent("server.global.nomad")
	text := func(s string) string {
		path := filepath.Join(t.TempDir(), "f.pem")
		if err := os.WriteFile(path, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, c := range map[string]struct {
		edit          func(*certs.Config)
		setting, want string
	}{
		"no CA": {func(c *certs.Config) { c.CAFile = "" }, "rpc", "ca_file is not set"},
		"no CA for HTTPS": {func(c *certs.Config) { c.CAFile, c.RPC, c.HTTP, c.VerifyHTTPSClient = "", false, true, true },
			"verify_https_client", "ca_file is not set"},
		"no key":            {func(c *certs.Config) { c.RPC, c.HTTP, c.KeyFile = false, true, "" }, "http", "cert_file and key_file"},
		"missing CA file":   {func(c *certs.Config) { c.CAFile = "/nowhere" }, "ca_file", "/nowhere: no such file"},
		"missing cert file": {func(c *certs.Config) { c.CertFile = "/nowhere" }, "cert_file", "/nowhere: no such file"},
		"missing key file":  {func(c *certs.Config) { c.KeyFile = "/nowhere" }, "key_file", "/nowhere: no such file"},
		"CA is no PEM":      {func(c *certs.Config) { c.CAFile = text("x") }, "ca_file", "no certificate in PEM"},
		"CA is a key":       {func(c *certs.Config) { c.CAFile = good.Key }, "ca_file", "only certificates are expected"},
		"cert is no PEM":    {func(c *certs.Config) { c.CertFile = text("x") }, "cert_file", "no certificate in PEM"},
		"key is no PEM":     {func(c *certs.Config) { c.KeyFile = text("x") }, "key_file", "no key in PEM"},
		"key of another":    {func(c *certs.Config) { c.KeyFile = ca.Agent("x").Key }, "key_file", "is not the key of"},
		"expired":           {func(c *certs.Config) { c.CertFile, c.KeyFile = at(ca, -3) }, "cert_file", "expired at"},
		"not yet":           {func(c *certs.Config) { c.CertFile, c.KeyFile = at(ca, 3) }, "cert_file", "is valid from"},
		"no server": {func(c *certs.Config) { f := ca.Agent("client.global.nomad"); c.CertFile, c.KeyFile = f.Cert, f.Key },
			"cert_file", "is not for server.global.nomad"},
		"no client": {func(c *certs.Config) { c.Server, c.Region = false, "far" }, "cert_file", "is not for client.far.nomad"},
		"cannot call": {func(c *certs.Config) {
			f := ca.Issue(pki.CertOptions{DNSNames: []string{"server.global.nomad"}, Server: true})
			c.CertFile, c.KeyFile = f.Cert, f.Key
		}, "cert_file", "not for client authentication"},
		"cannot be called": {func(c *certs.Config) {
			f := ca.Issue(pki.CertOptions{DNSNames: []string{"server.global.nomad"}, Client: true})
			c.CertFile, c.KeyFile = f.Cert, f.Key
		}, "cert_file", "not for server authentication"},
		"version": {func(c *certs.Config) { c.MinVersion = "ssl3" }, "tls_min_version", "not \"ssl3\""},
		"CBC": {func(c *certs.Config) { c.CipherSuites = "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA" }, "tls_cipher_suites",
			"CBC_SHA\" is not offered"},
		"no such suite": {func(c *certs.Config) { c.CipherSuites = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,X" }, "tls_cipher_suites",
			"\"X\" is not offered"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := good.Config()
			cfg.Server = true
			store := testpki.Open(t, cfg)
			c.edit(&cfg)
			for what, err := range map[string]error{"Check": certs.Check(cfg), "Reload": store.Reload(cfg)} {
				var setting *certs.SettingError
				if !errors.As(err, &setting) || setting.Setting != c.setting || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%s() = %v, want %s: %q", what, err, c.setting, c.want)
				}
			}
			if _, _, called, accepted := meet(t, store, store, "global"); called != nil || accepted != nil {
				t.Errorf("after a bad reload: %v, %v", called, accepted)
			}
		})
	}
}

// at makes a certificate with a validity of one day that begins days from now.
func at(ca *testpki.CA, days int) (cert, key string) {
	f := ca.Issue(pki.CertOptions{DNSNames: []string{"server.global.nomad"}, Client: true, Server: true, Days: 1,
		At: time.Now().AddDate(0, 0, days)})
	return f.Cert, f.Key
}

func TestSuitesAreChosen(t *testing.T) {
	ca := testpki.New(t)
	f := ca.Agent("server.global.nomad")
	for names, want := range map[string]uint16{
		"": tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
		"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, tls_ecdhe_ecdsa_with_aes_256_gcm_sha384": tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
		"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305":                                         tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
	} {
		cfg := f.Config()
		cfg.CipherSuites, cfg.MinVersion = names, "tls10"
		conf := &tls.Config{Certificates: []tls.Certificate{keyPair(t, f)}, InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}
		state, err := shake(t, testpki.Open(t, cfg), conf)
		if err != nil || names != "" && state.CipherSuite != want {
			t.Errorf("%q: %s, %v", names, tls.CipherSuiteName(state.CipherSuite), err)
		}
	}
}

// ended reports whether a connection is closed within the time.
func ended(t *testing.T, c net.Conn, within time.Duration) bool {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(within))
	_, err := c.Read(make([]byte, 1))
	var n net.Error
	return err != nil && !(errors.As(err, &n) && n.Timeout())
}

// Reload closes connections that the new settings refuse, and keeps all others.
func TestReloadClosesWhatItWouldRefuse(t *testing.T) {
	const soon = 50 * time.Millisecond
	ca, next := testpki.New(t), testpki.New(t)
	f := ca.Agent("server.global.nomad")
	cfg := f.Config()
	for name, c := range map[string]struct {
		reload func(*certs.Config)
		closes bool
	}{
		"nothing new": {func(*certs.Config) {}, false},
		"a new certificate": {func(*certs.Config) {
			ca.Into(f, pki.CertOptions{DNSNames: []string{"server.global.nomad"}, Client: true, Server: true})
		}, false},
		"another CA":     {func(c *certs.Config) { *c = next.Agent("server.global.nomad").Config() }, true},
		"another region": {func(c *certs.Config) { c.Region, c.VerifyServerHostname = "far", false }, false},
		"no TLS":         {func(c *certs.Config) { c.RPC = false }, true},
	} {
		t.Run(name, func(t *testing.T) {
			caller, server := testpki.Open(t, ca.Agent("client.global.nomad").Config()), testpki.Open(t, cfg)
			_, far, called, accepted := meet(t, caller, server, "global")
			if called != nil || accepted != nil {
				t.Fatal(called, accepted)
			}
			changed := cfg
			c.reload(&changed)
			if err := server.Reload(changed); err != nil {
				t.Fatal(err)
			}
			if got := ended(t, far, soon); got != c.closes {
				t.Errorf("closed is %t, want %t", got, c.closes)
			}
		})
	}
	t.Run("plain when TLS is on", func(t *testing.T) {
		off := cfg
		off.RPC = false
		server := testpki.Open(t, off)
		a, b := pair(t)
		far, err := server.AcceptPlain(b)
		if err != nil {
			t.Fatal(err)
		}
		upgrading := cfg
		upgrading.UpgradeMode = true
		for _, step := range []struct {
			cfg    certs.Config
			closes bool
		}{{upgrading, false}, {cfg, true}} {
			if err := server.Reload(step.cfg); err != nil {
				t.Fatal(err)
			}
			if got := ended(t, far, soon); got != step.closes {
				t.Errorf("closed is %t, want %t", got, step.closes)
			}
		}
		if n, err := a.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the other side reads %d, %v", n, err)
		}
	})
}

// In upgrade mode a connection without TLS is judged by its token alone.
func TestRolesOfPeers(t *testing.T) {
	ca := testpki.New(t)
	cfg := ca.Agent("server.global.nomad").Config()
	peer := func(names ...string) *certs.Peer {
		c := cfg
		c.VerifyServerHostname = false
		f := ca.Agent(names...).Config()
		f.VerifyServerHostname = false
		_, far, called, accepted := meet(t, testpki.Open(t, f), testpki.Open(t, c), "global")
		if called != nil || accepted != nil {
			t.Fatal(called, accepted)
		}
		return far.Peer()
	}
	server, client, far, plain := peer("server.global.nomad"), peer("client.global.nomad"), peer("server.far.nomad"), (*certs.Peer)(nil)
	both := peer("client.global.nomad", "server.global.nomad")
	type verdicts [3]bool // server, agent, raft
	for name, c := range map[string]struct {
		edit func(*certs.Config)
		peer *certs.Peer
		want verdicts
	}{
		"server":             {nil, server, verdicts{true, true, true}},
		"client":             {nil, client, verdicts{false, true, false}},
		"both":               {nil, both, verdicts{true, true, true}},
		"far server":         {nil, far, verdicts{false, false, false}},
		"plain":              {nil, plain, verdicts{false, false, false}},
		"no names":           {func(c *certs.Config) { c.VerifyServerHostname = false }, far, verdicts{true, true, true}},
		"no TLS":             {func(c *certs.Config) { c.RPC = false }, plain, verdicts{true, true, true}},
		"upgrading, plain":   {func(c *certs.Config) { c.UpgradeMode = true }, plain, verdicts{true, true, true}},
		"upgrading, client":  {func(c *certs.Config) { c.UpgradeMode = true }, client, verdicts{false, true, true}},
		"upgrading, far one": {func(c *certs.Config) { c.UpgradeMode = true }, far, verdicts{false, false, true}},
	} {
		t.Run(name, func(t *testing.T) {
			own := cfg
			if c.edit != nil {
				c.edit(&own)
			}
			s := testpki.Open(t, own)
			for i, err := range []error{s.IsServer(c.peer), s.IsAgent(c.peer), s.IsRaft(c.peer)} {
				if (err == nil) != c.want[i] || err != nil && !errors.Is(err, certs.ErrPeer) {
					t.Errorf("verdict %d is %v, want %v", i, err, c.want[i])
				}
			}
		})
	}
	if err := (*certs.Store)(nil).IsServer(nil); err != nil {
		t.Errorf("without TLS: %v", err)
	}
}

// Only a verified, unexpired certificate with the DNS name of a server proves a server, and only to
// a server with TLS. Other settings do not change that.
func TestProvesServer(t *testing.T) {
	ca := testpki.New(t)
	own := ca.Agent("server.global.nomad").Config()
	own.VerifyServerHostname = false
	peer := func(o pki.CertOptions) *certs.Peer {
		o.Client, o.Server = true, true
		f := ca.Issue(o).Config()
		f.VerifyServerHostname = false
		_, far, called, accepted := meet(t, testpki.Open(t, f), testpki.Open(t, own), "global")
		if called != nil || accepted != nil {
			t.Fatal(called, accepted)
		}
		return far.Peer()
	}
	names := func(names ...string) *certs.Peer { return peer(pki.CertOptions{DNSNames: names}) }
	server, now := names("server.global.nomad"), time.Now()
	unverified, _, called, accepted := meet(t, testpki.Open(t, own), testpki.Open(t, own), "global") // the caller checks no name
	if called != nil || accepted != nil {
		t.Fatal(called, accepted)
	}
	verifying, upgrading, off := own, own, own
	verifying.VerifyServerHostname, upgrading.UpgradeMode, off.RPC = true, true, false
	for name, c := range map[string]struct {
		cfg  certs.Config
		peer *certs.Peer
		now  time.Time
		want string // part of the error
	}{
		"server":           {own, server, now, ""},
		"among others":     {own, names("a.example", "server.global.nomad"), now, ""},
		"verifying":        {verifying, server, now, ""},
		"upgrading":        {upgrading, server, now, ""},
		"plain":            {own, nil, now, "the connection has no TLS"},
		"upgrading, plain": {upgrading, nil, now, "the connection has no TLS"},
		"TLS off":          {off, nil, now, "tls.rpc off"},
		"TLS turned off":   {off, server, now, "tls.rpc off"},
		"client":           {own, names("client.global.nomad"), now, `is for "client.global.nomad"`},
		"far server":       {own, names("server.far.nomad"), now, `is for "server.far.nomad"`},
		"wildcard":         {own, names("*.global.nomad"), now, `is for "*.global.nomad"`},
		"common name": {own, peer(pki.CertOptions{DNSNames: []string{"a.example"}, CommonName: "server.global.nomad"}), now,
			`is for "server.global.nomad"`},
		"expired": {own, server, now.AddDate(2, 0, 0), "expired at"},
		"dialed":  {own, unverified.Peer(), now, "was not verified"},
	} {
		t.Run(name, func(t *testing.T) {
			err := testpki.Open(t, c.cfg).ProvesServer(c.peer, c.now)
			switch {
			case c.want == "" && err != nil:
				t.Errorf("ProvesServer() = %v", err)
			case c.want != "" && (!errors.Is(err, certs.ErrPeer) || !strings.Contains(err.Error(), c.want)):
				t.Errorf("ProvesServer() = %v, want %q", err, c.want)
			}
		})
	}
	if err := (*certs.Store)(nil).ProvesServer(server, now); !errors.Is(err, certs.ErrPeer) {
		t.Errorf("without a store: %v", err)
	}
}

// An error names the key file but does not contain the key.
func TestErrorsDoNotContainKeys(t *testing.T) {
	ca := testpki.New(t)
	f := ca.Agent("server.global.nomad")
	key, err := os.ReadFile(f.Key)
	if err != nil {
		t.Fatal(err)
	}
	secret := strings.Split(string(key), "\n")[1]
	if err := os.WriteFile(f.Key, []byte(strings.Replace(string(key), secret, secret[:20], 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := certs.Check(f.Config()); err == nil || strings.Contains(err.Error(), secret[:12]) {
		t.Errorf("Check() = %v", err)
	}
}
