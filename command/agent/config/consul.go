package config

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/internal/consul"
)

// Consul is a consul block. Blocks with the same name are merged. The default cluster is the one that jobs can use.
type Consul struct {
	Name                         string        `hcl:"name" default:"default"`
	ServerServiceName            string        `hcl:"server_service_name" default:"nomad"`
	ServerHTTPCheckName          string        `hcl:"server_http_check_name" default:"Nomad Server HTTP Check"`
	ServerSerfCheckName          string        `hcl:"server_serf_check_name" default:"Nomad Server Serf Check"`
	ServerRPCCheckName           string        `hcl:"server_rpc_check_name" default:"Nomad Server RPC Check"`
	ServerFailuresBeforeCritical int           `hcl:"server_failures_before_critical"`
	ServerFailuresBeforeWarning  int           `hcl:"server_failures_before_warning"`
	ClientServiceName            string        `hcl:"client_service_name" default:"nomad-client"`
	ClientHTTPCheckName          string        `hcl:"client_http_check_name" default:"Nomad Client HTTP Check"`
	ClientFailuresBeforeCritical int           `hcl:"client_failures_before_critical"`
	ClientFailuresBeforeWarning  int           `hcl:"client_failures_before_warning"`
	Tags                         []string      `hcl:"tags"`
	AutoAdvertise                bool          `hcl:"auto_advertise" default:"true"`
	ChecksUseAdvertise           bool          `hcl:"checks_use_advertise"`
	Address                      string        `hcl:"address"`
	GRPCAddress                  string        `hcl:"grpc_address"`
	Timeout                      time.Duration `hcl:"timeout" default:"5s"`
	Token                        string        `hcl:"token"`
	Auth                         string        `hcl:"auth"`
	SSL                          bool          `hcl:"ssl"`
	ShareSSL                     bool          `hcl:"share_ssl"`
	VerifySSL                    bool          `hcl:"verify_ssl" default:"true"`
	GRPCCAFile                   string        `hcl:"grpc_ca_file"`
	CAFile                       string        `hcl:"ca_file"`
	CertFile                     string        `hcl:"cert_file"`
	KeyFile                      string        `hcl:"key_file"`
	ServerAutoJoin               bool          `hcl:"server_auto_join" default:"true"`
	ClientAutoJoin               bool          `hcl:"client_auto_join" default:"true"`
	Namespace                    string        `hcl:"namespace"`
	ServiceIdentity              Identity      `hcl:"service_identity"`
	ServiceAuthMethod            string        `hcl:"service_auth_method" default:"nomad-workloads"`
	TaskIdentity                 Identity      `hcl:"task_identity"`
	TaskAuthMethod               string        `hcl:"task_auth_method" default:"nomad-workloads"`
}

// maxClusterName limits the name of a cluster.
const maxClusterName = 128

// checkConsul checks the consul blocks, and reads their TLS files.
func (s *Settings) checkConsul() error {
	errs := []error{s.checkConsulClaims()}
	for _, c := range s.Consul {
		errs = append(errs, s.checkConsulBlock(c))
	}
	return errors.Join(errs...)
}

func (s *Settings) checkConsulBlock(c *Consul) error {
	var errs []error
	errs = append(errs, s.checkClusterName("consul.name", c.Name))
	if c.Timeout <= 0 {
		errs = append(errs, s.Fault("consul.timeout", "must be above 0"))
	}
	errs = append(errs, s.checkConsulServices(c))
	_, err := s.consulIdentity("service_identity", &c.ServiceIdentity)
	errs = append(errs, err)
	_, err = s.consulIdentity("task_identity", &c.TaskIdentity)
	return errors.Join(append(errs, err, s.checkConsulConnection(c))...)
}

// checkConsulServices checks the keys of the agent's own services.
func (s *Settings) checkConsulServices(c *Consul) error {
	var errs []error
	for _, k := range []struct {
		path, name string
		enabled    bool
	}{{"consul.server_service_name", c.ServerServiceName, s.Server.Enabled}, {"consul.client_service_name", c.ClientServiceName, s.Client.Enabled}} {
		if k.name == "" && k.enabled && c.AutoAdvertise {
			errs = append(errs, s.Fault(k.path, "must not be empty while auto_advertise is true: set a name, or auto_advertise = false"))
		}
	}
	for path, n := range map[string]int{"server_failures_before_critical": c.ServerFailuresBeforeCritical,
		"server_failures_before_warning": c.ServerFailuresBeforeWarning, "client_failures_before_critical": c.ClientFailuresBeforeCritical,
		"client_failures_before_warning": c.ClientFailuresBeforeWarning} {
		if n < 0 {
			errs = append(errs, s.Fault("consul."+path, "must not be negative"))
		}
	}
	return errors.Join(errs...)
}

// checkConsulConnection checks the addresses and the TLS files of a block. If the configuration is for another machine, a
// missing file is a warning, and templates in addresses are not evaluated.
func (s *Settings) checkConsulConnection(c *Consul) error {
	var errs []error
	for _, k := range []struct{ path, address string }{{"consul.address", c.Address}, {"consul.grpc_address", c.GRPCAddress}} {
		if _, err := consulAddress(k.address); err != nil && !(s.otherMachine && strings.Contains(k.address, "{{")) {
			errs = append(errs, s.Fault(k.path, "%v", err))
		}
	}
	for _, f := range []struct{ path, file string }{{"consul.ca_file", c.CAFile}, {"consul.cert_file", c.CertFile},
		{"consul.key_file", c.KeyFile}, {"consul.grpc_ca_file", c.GRPCCAFile}} {
		if f.file == "" {
			continue
		}
		_, err := os.ReadFile(f.file)
		switch {
		case err == nil:
		case s.otherMachine && errors.Is(err, fs.ErrNotExist):
			s.missing = append(s.missing, s.Fault(f.path, "%v", err).Error())
		default:
			errs = append(errs, s.Fault(f.path, "%v", err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	set, err := s.consulSettings(c)
	if t := set.HTTP.TLSConfig; (t.CertFile == "") != (t.KeyFile == "") {
		return s.Fault("consul.cert_file", "cert_file and key_file must be set together")
	}
	if s.otherMachine {
		return nil
	}
	if err == nil {
		_, err = consul.New(set)
	}
	if err != nil {
		return s.Fault("consul", "cluster %q: %v", c.Name, err)
	}
	return nil
}

// DefaultConsul returns the block of the cluster that jobs and this agent use, nil without one.
func (s *Settings) DefaultConsul() *Consul {
	at := slices.IndexFunc(s.Consul, func(c *Consul) bool { return c.Name == consul.DefaultCluster })
	if at < 0 {
		return nil
	}
	return s.Consul[at]
}
