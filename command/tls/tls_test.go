package tls_test

import (
	"bytes"
	stdtls "crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/command/tls"
	"github.com/open-nomad/open-nomad/internal/pki"
)

// run runs a command of the package in the current directory.
func run(t *testing.T, line string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	for _, c := range tls.Commands() {
		if args, ok := strings.CutPrefix(line, c.Name); ok {
			code = c.Adapt(nil, &o, &e).Run(strings.Fields(args))
			return code, o.String(), e.String()
		}
	}
	t.Fatalf("no command %q", line)
	return
}

// must runs a command that must succeed.
func must(t *testing.T, line string) string {
	t.Helper()
	code, out, errs := run(t, line)
	if code != 0 {
		t.Fatalf("nomad %s: exit %d: %s", line, code, errs)
	}
	return out
}

// files lists the current directory with file modes.
func files(t *testing.T) string {
	t.Helper()
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, info.Mode().String()+" "+e.Name())
	}
	return strings.Join(out, "\n")
}

func certificate(t *testing.T, name string) *x509.Certificate {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	certs, err := pki.ParseCertificates(text)
	if err != nil {
		t.Fatal(err)
	}
	return certs[0]
}

func TestFilesOfACluster(t *testing.T) {
	t.Chdir(t.TempDir())
	must(t, "tls ca create")
	must(t, "tls cert create -server")
	must(t, "tls cert create -client -region eu")
	must(t, "tls cert create -cli")
	want := `-rw------- eu-client-nomad-key.pem
-rw-r--r-- eu-client-nomad.pem
-rw------- global-cli-nomad-key.pem
-rw-r--r-- global-cli-nomad.pem
-rw------- global-server-nomad-key.pem
-rw-r--r-- global-server-nomad.pem
-rw------- nomad-agent-ca-key.pem
-rw-r--r-- nomad-agent-ca.pem`
	if got := files(t); got != want {
		t.Errorf("files:\n%s\nwant:\n%s", got, want)
	}
	both := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
	roots := x509.NewCertPool()
	roots.AddCert(certificate(t, "nomad-agent-ca.pem"))
	for name, c := range map[string]struct {
		dns   []string
		usage []x509.ExtKeyUsage
	}{
		"global-server-nomad": {[]string{"server.global.nomad", "localhost"}, both},
		"eu-client-nomad":     {[]string{"client.eu.nomad", "localhost"}, both},
		"global-cli-nomad":    {[]string{"cli.global.nomad", "localhost"}, both[:1]},
	} {
		if _, err := stdtls.LoadX509KeyPair(name+".pem", name+"-key.pem"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		cert := certificate(t, name+".pem")
		if !slices.Equal(cert.DNSNames, c.dns) || !slices.Equal(cert.ExtKeyUsage, c.usage) || len(cert.IPAddresses) != 1 ||
			!cert.IPAddresses[0].Equal(net.IPv4(127, 0, 0, 1)) {
			t.Errorf("%s is for %v %v %v", name, cert.DNSNames, cert.IPAddresses, cert.ExtKeyUsage)
		}
		if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: c.usage}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNothingIsOverwritten(t *testing.T) {
	t.Chdir(t.TempDir())
	must(t, "tls ca create")
	must(t, "tls cert create -server")
	for file, command := range map[string]string{"nomad-agent-ca": "tls ca create", "global-server-nomad": "tls cert create -server"} {
		for _, gone := range []string{".pem", "-key.pem", ""} { // each file alone, then both
			before := files(t)
			if gone != "" {
				if err := os.Rename(file+gone, "away"); err != nil {
					t.Fatal(err)
				}
			}
			kept, err := os.ReadFile("nomad-agent-ca.pem")
			if strings.HasPrefix(file, "global") && err != nil {
				t.Fatal(err)
			}
			code, _, errs := run(t, command)
			if code != 1 || !strings.Contains(errs, "already exists") {
				t.Errorf("%s without %s%s: exit %d: %s", command, file, gone, code, errs)
			}
			if now, err := os.ReadFile("nomad-agent-ca.pem"); err == nil && !bytes.Equal(now, kept) {
				t.Errorf("%s has written another CA", command)
			}
			if gone != "" {
				if err := os.Rename("away", file+gone); err != nil {
					t.Fatal(err)
				}
			}
			if got := files(t); got != before {
				t.Errorf("%s left:\n%s", command, got)
			}
		}
	}
	// A dangling symbolic link is not followed.
	if err := os.Symlink("target", "global-client-nomad-key.pem"); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := run(t, "tls cert create -client"); code != 1 || !strings.Contains(errs, "already exists") {
		t.Errorf("a link was written through: exit %d: %s", code, errs)
	}
	if matches, _ := filepath.Glob("*client-nomad.pem"); matches != nil {
		t.Errorf("%v was written without its key", matches)
	}
}

func TestWhatIsAskedFor(t *testing.T) {
	t.Chdir(t.TempDir())
	must(t, "tls ca create -domain corp -name-constraint -additional-domain nomad -common-name Root -country CH -organization Org -days 20")
	ca := certificate(t, "corp-agent-ca.pem")
	if got := strings.Join(ca.PermittedDNSDomains, " "); got != "corp localhost nomad" || ca.Subject.String() != "CN=Root,O=Org,C=CH" {
		t.Errorf("CA %s for %s", ca.Subject, got)
	}
	t.Setenv("NOMAD_REGION", "eu")
	must(t, "tls cert create -domain corp -server -days 9 -additional-dnsname x.nomad -additional-dnsname y.corp "+
		"-additional-ipaddress 10.0.0.1 -additional-ipaddress ::1")
	cert := certificate(t, "eu-server-corp.pem")
	if got := strings.Join(cert.DNSNames, " "); got != "server.eu.corp localhost x.nomad y.corp" || len(cert.IPAddresses) != 3 ||
		cert.NotAfter.Sub(cert.NotBefore).Hours() > 9*24+1 {
		t.Errorf("certificate for %s %v until %s", got, cert.IPAddresses, cert.NotAfter)
	}
	if code, _, errs := run(t, "tls cert create -domain corp -server -region us"); code != 1 || !strings.Contains(errs, "outlive") {
		t.Errorf("365 days of a CA of 20: exit %d: %s", code, errs)
	}
	_, _, note := run(t, "tls cert create -domain corp -client -days 9")
	if !strings.Contains(note, "-additional-dnsname=client.eu.nomad") {
		t.Errorf("another domain than nomad: %q", note)
	}
	must(t, "tls cert create -ca corp-agent-ca.pem -key corp-agent-ca-key.pem -cli -days 9")
	if certificate(t, "eu-cli-nomad.pem").Issuer.CommonName != "Root" {
		t.Error("-ca and -key were not used")
	}
}

func TestRefused(t *testing.T) {
	t.Chdir(t.TempDir())
	must(t, "tls ca create -name-constraint")
	must(t, "tls cert create -cli")
	must(t, "tls ca create -domain other")
	before := files(t)
	for line, want := range map[string]string{
		"tls cert create":                                                 "one of -server, -client or -cli is required",
		"tls cert create -server -cli":                                    "mutually exclusive",
		"tls cert create -server -days 0":                                 "-days: 0",
		"tls cert create -server -additional-ipaddress 10.0.0":            `"10.0.0" is not an IP address`,
		"tls cert create -server -additional-dnsname a..b":                `"a..b" is not valid`,
		"tls cert create -server -additional-dnsname example.org":         "not permitted",
		"tls cert create -server -domain ../x":                            "is not a DNS domain",
		"tls cert create -server -region ../x":                            "is not valid",
		"tls cert create -server -domain nowhere":                         "nowhere-agent-ca.pem: no such file or directory",
		"tls cert create -server -key none.pem":                           "none.pem: no such file or directory",
		"tls cert create -server -key other-agent-ca-key.pem":             "is not the key of the certificate",
		"tls cert create -server -ca global-cli-nomad.pem":                "is not the certificate of a CA",
		"tls cert create -server -ca nomad-agent-ca-key.pem":              `this is "EC PRIVATE KEY"`,
		"tls cert create -server surplus":                                 "takes no arguments",
		"tls ca create -domain new -additional-domain x":                  "requires -name-constraint",
		"tls ca create -domain new/x":                                     "is not a DNS domain",
		"tls ca create -domain new -days 99999":                           "not between 1 and 36500",
		"tls ca create -domain new -days -1":                              "-days: -1",
		"tls ca create -domain new -name-constraint -additional-domain=-": `"-" is not valid`,
		"tls ca info":                            "takes <file>",
		"tls ca info none.pem":                   "none.pem: no such file or directory",
		"tls ca info global-cli-nomad.pem":       "is not a CA certificate",
		"tls cert info global-cli-nomad-key.pem": `this is "EC PRIVATE KEY"`,
	} {
		code, _, errs := run(t, line)
		if code != 1 || !strings.Contains(errs, want) {
			t.Errorf("nomad %s: exit %d: %s\nwant %q", line, code, errs, want)
		}
		if strings.Contains(errs, "BEGIN") {
			t.Errorf("nomad %s prints a key", line)
		}
	}
	if got := files(t); got != before {
		t.Errorf("left behind:\n%s", got)
	}
}

func TestInfo(t *testing.T) {
	t.Chdir(t.TempDir())
	must(t, "tls ca create -name-constraint")
	must(t, "tls cert create -client")
	for line, want := range map[string][]string{
		"tls ca info nomad-agent-ca.pem": {"Common Name = nomad agent CA", "Permitted DNS Domains = localhost, nomad",
			"(1824 days left)", "Serial Number = "},
		"tls cert info global-client-nomad.pem": {"DNS Names = client.global.nomad, localhost", "IP Addresses = 127.0.0.1",
			"open connections, accept connections", "Issuer CN = nomad agent CA"},
		"tls cert info nomad-agent-ca.pem": {"DNS Names = <none>", "sign certificates"},
	} {
		out := strings.Join(strings.Fields(must(t, line)), " ")
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("nomad %s: %q is missing in\n%s", line, w, out)
			}
		}
	}
}
