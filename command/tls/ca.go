package tls

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	"github.com/open-nomad/open-nomad/command/term"
	"github.com/open-nomad/open-nomad/internal/pki"
)

func caCreateCommand() term.Command {
	return term.Command{
		Name: "tls ca create", Short: "Create the certificate authority of a cluster",
		Long: `Writes the certificate <domain>-agent-ca.pem, which every agent and user needs, and the
key <domain>-agent-ca-key.pem. Keep the key outside the cluster: it can sign certificates
of servers.`,
		Setup: func(f *term.Flags) term.Run {
			o := pki.CAOptions{}
			f.StringVar(&o.CommonName, "common-name", "", "The common `name` of the CA. Default \"<domain> agent CA\".")
			f.StringVar(&o.Country, "country", "", "The two-letter code of the `country` in the name of the CA.")
			f.StringVar(&o.Province, "province", "", "The `province` in the name of the CA.")
			f.StringVar(&o.Locality, "locality", "", "The `locality` in the name of the CA.")
			f.StringVar(&o.PostalCode, "postal-code", "", "The postal `code` in the name of the CA.")
			f.StringVar(&o.StreetAddress, "street-address", "", "The `street` in the name of the CA.")
			f.StringVar(&o.Organization, "organization", "", "The `organization` in the name of the CA.")
			f.StringVar(&o.OrganizationalUnit, "organizational-unit", "", "The `unit` of the organization in the name of the CA.")
			f.IntVar(&o.Days, "days", 1825, "The number of `days` for which the CA is valid. Default 1825.")
			domain := f.String("domain", defaultDomain, "The DNS `domain` of the cluster. It is a part of the file names.\nDefault nomad.")
			constrain := f.Bool("name-constraint", false, "Restrict the CA to names in its domains and localhost.")
			more := f.Strings("additional-domain", "An additional `domain` for which the CA can sign. May be repeated.\nRequires -name-constraint.")
			return func(_ context.Context, e *term.Env) error {
				if *constrain {
					o.Domains = append([]string{*domain, "localhost"}, *more...)
				} else if len(*more) > 0 {
					return errors.New("-additional-domain requires -name-constraint: without it the CA can sign for every name")
				}
				return createCA(e, *domain, o)
			}
		},
	}
}

func createCA(e *term.Env, domain string, o pki.CAOptions) error {
	if err := errors.Join(checkDomain(domain), checkDays(o.Days)); err != nil {
		return err
	}
	if o.CommonName == "" {
		o.CommonName = domain + " agent CA"
	}
	ca, err := pki.NewCA(o)
	if err != nil {
		return fmt.Errorf("Error creating CA: %w", err)
	}
	p := pair{certFile: domain + caFile, keyFile: domain + caKeyFile, cert: ca.CertPEM, key: ca.KeyPEM}
	if err := p.write(); err != nil {
		return err
	}
	e.Println("CA certificate saved to: " + p.certFile)
	e.Println("CA certificate key saved to: " + p.keyFile)
	return nil
}

func caInfoCommand() term.Command {
	return info("tls ca info", "Show the certificate of a certificate authority", "", func(c *x509.Certificate) ([]string, error) {
		if !c.IsCA {
			return nil, fmt.Errorf("the certificate of %q is not a CA certificate: use 'nomad tls cert info'", c.Subject.CommonName)
		}
		domains := strings.Join(c.PermittedDNSDomains, ", ")
		if domains == "" {
			domains = "<all>"
		}
		return []string{term.Row("Permitted DNS Domains", domains)}, nil
	})
}
