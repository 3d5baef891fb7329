package tls

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/open-nomad/open-nomad/command/term"
	"github.com/open-nomad/open-nomad/internal/pki"
)

// role is the role of a certificate: the first label of its name.
type role string

const (
	server role = "server"
	client role = "client"
	cli    role = "cli"
)

// title returns the role for the beginning of a line.
func (r role) title() string {
	return map[role]string{server: "Server", client: "Client", cli: "CLI"}[r]
}

// order holds the flags of tls cert create.
type order struct {
	role            role
	domain, region  string
	caFile, keyFile string
	names, ips      []string // in addition to those of the role
	days            int
}

func certCreateCommand() term.Command {
	return term.Command{
		Name: "tls cert create", Short: "Create a certificate for a server, a client or the command line",
		Long: `Reads the CA and its key, and writes the certificate <region>-<role>-<domain>.pem and
the key <region>-<role>-<domain>-key.pem. The role is server, client or cli. The
certificate is valid for <role>.<region>.<domain>, localhost and 127.0.0.1. The region
is -region, NOMAD_REGION or global.

Servers and clients authenticate each other by these certificates. The certificate of a
server gives access to the complete state of the cluster.`,
		Setup: func(f *term.Flags) term.Run {
			o := &order{}
			roles := map[role]*bool{
				server: f.Bool("server", false, "Create a certificate for servers."),
				client: f.Bool("client", false, "Create a certificate for clients."),
				cli:    f.Bool("cli", false, "Create a certificate for users of the command line and the HTTP API."),
			}
			f.StringVar(&o.domain, "domain", defaultDomain, "The DNS `domain` of the cluster. Default nomad.")
			f.StringVar(&o.caFile, "ca", "", "The `file` of the CA's certificate. Default <domain>-agent-ca.pem.")
			f.StringVar(&o.keyFile, "key", "", "The `file` of the CA's key. Default <domain>-agent-ca-key.pem.")
			f.IntVar(&o.days, "days", 365, "The number of `days` for which the certificate is valid. Default 365.")
			names := f.Strings("additional-dnsname", "An additional DNS `name` of the certificate. May be repeated.")
			ips := f.Strings("additional-ipaddress", "An additional IP `address` of the certificate. May be repeated.")
			return func(_ context.Context, e *term.Env) error {
				for r, given := range roles {
					if *given && o.role != "" {
						return errors.New("-server, -client and -cli are mutually exclusive: a certificate has one role")
					} else if *given {
						o.role = r
					}
				}
				if o.role == "" {
					return errors.New("one of -server, -client or -cli is required")
				}
				o.region, o.names, o.ips = e.Region(), *names, *ips
				return createCert(e, o)
			}
		},
	}
}

func createCert(e *term.Env, o *order) error {
	if err := errors.Join(checkDomain(o.domain), checkDays(o.days)); err != nil {
		return err
	}
	o.region = cmp.Or(o.region, defaultRegion)
	o.caFile, o.keyFile = cmp.Or(o.caFile, o.domain+caFile), cmp.Or(o.keyFile, o.domain+caKeyFile)
	ips, err := parseIPs(o.ips)
	if err != nil {
		return err
	}
	ca, err := loadCA(o.caFile, o.keyFile)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("%s.%s.%s", o.role, o.region, o.domain)
	p := pair{certFile: fmt.Sprintf("%s-%s-%s.pem", o.region, o.role, o.domain)}
	p.keyFile = strings.TrimSuffix(p.certFile, ".pem") + "-key.pem"
	p.cert, p.key, err = ca.Issue(pki.CertOptions{
		CommonName: name, DNSNames: append([]string{name, "localhost"}, o.names...), IPs: append([]net.IP{net.IPv4(127, 0, 0, 1)}, ips...),
		Days: o.days, Client: true, Server: o.role != cli})
	if err != nil {
		return fmt.Errorf("Error creating certificate: %w", err)
	}
	if err := p.write(); err != nil {
		return err
	}
	e.Println("Signed with the CA of " + o.caFile + " and " + o.keyFile)
	e.Println(o.role.title() + " certificate saved to: " + p.certFile)
	e.Println(o.role.title() + " certificate key saved to: " + p.keyFile)
	if o.role != cli && o.domain != defaultDomain {
		e.Warnf("Note: agents with verify_server_hostname expect names that end in .nomad: use -additional-dnsname=%s.%s.nomad", o.role, o.region)
	}
	return nil
}

func loadCA(certFile, keyFile string) (*pki.CA, error) {
	cert, err := os.ReadFile(certFile)
	if err != nil {
		return nil, fmt.Errorf("Error reading CA certificate: %w; set -ca to another file, or run 'nomad tls ca create'", err)
	}
	key, err := os.ReadFile(keyFile)
	if err != nil {
		return nil, fmt.Errorf("Error reading CA key: %w; set -key to another file", err)
	}
	ca, err := pki.LoadCA(cert, key)
	if err != nil {
		return nil, fmt.Errorf("Error reading CA from %s and %s: %w", certFile, keyFile, err)
	}
	return ca, nil
}

func certInfoCommand() term.Command {
	return info("tls cert info", "Show a certificate",
		"Shows the names, issuer and validity of every certificate in a PEM file.",
		func(c *x509.Certificate) ([]string, error) {
			return []string{
				term.Row("DNS Names", strings.Join(c.DNSNames, ", ")),
				term.Row("IP Addresses", list(c.IPAddresses)),
				term.Row("Usage", usage(c)),
			}, nil
		})
}

// usage describes the key usages of a certificate.
func usage(c *x509.Certificate) string {
	var out []string
	if c.IsCA {
		out = append(out, "sign certificates")
	}
	for _, u := range c.ExtKeyUsage {
		switch u {
		case x509.ExtKeyUsageClientAuth:
			out = append(out, "open connections")
		case x509.ExtKeyUsageServerAuth:
			out = append(out, "accept connections")
		}
	}
	return strings.Join(out, ", ")
}
