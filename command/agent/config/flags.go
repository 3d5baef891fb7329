package config

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

// flagRow is one flag that sets a key of the configuration.
type flagRow struct {
	name, path string
	isBool     bool
}

// flagTable lists the flags of the agent command that set a configuration key. Declare adds the
// other flags.
var flagTable = []flagRow{
	{"acl-enabled", "acl.enabled", true},
	{"acl-replication-token", "acl.replication_token", false},
	{"alloc-dir", "client.alloc_dir", false},
	{"alloc-mounts-dir", "client.alloc_mounts_dir", false},
	{"bind", "bind_addr", false},
	{"bootstrap-expect", "server.bootstrap_expect", false},
	{"client", "client.enabled", true},
	{"consul-address", "consul.address", false},
	{"consul-auth", "consul.auth", false},
	{"consul-auto-advertise", "consul.auto_advertise", true},
	{"consul-ca-file", "consul.ca_file", false},
	{"consul-cert-file", "consul.cert_file", false},
	{"consul-checks-use-advertise", "consul.checks_use_advertise", true},
	{"consul-client-auto-join", "consul.client_auto_join", true},
	{"consul-client-failures-before-critical", "consul.client_failures_before_critical", false},
	{"consul-client-failures-before-warning", "consul.client_failures_before_warning", false},
	{"consul-client-http-check-name", "consul.client_http_check_name", false},
	{"consul-client-service-name", "consul.client_service_name", false},
	{"consul-key-file", "consul.key_file", false},
	{"consul-server-auto-join", "consul.server_auto_join", true},
	{"consul-server-failures-before-critical", "consul.server_failures_before_critical", false},
	{"consul-server-failures-before-warning", "consul.server_failures_before_warning", false},
	{"consul-server-http-check-name", "consul.server_http_check_name", false},
	{"consul-server-rpc-check-name", "consul.server_rpc_check_name", false},
	{"consul-server-serf-check-name", "consul.server_serf_check_name", false},
	{"consul-server-service-name", "consul.server_service_name", false},
	{"consul-ssl", "consul.ssl", true},
	{"consul-token", "consul.token", false},
	{"consul-verify-ssl", "consul.verify_ssl", true},
	{"data-dir", "data_dir", false},
	{"dc", "datacenter", false},
	{"encrypt", "server.encrypt", false},
	{"eventlog", "eventlog.enabled", true},
	{"eventlog-level", "eventlog.level", false},
	{"host-volume-plugin-dir", "client.host_volume_plugin_dir", false},
	{"host-volumes-dir", "client.host_volumes_dir", false},
	{"join", "server.server_join.start_join", false},
	{"log-include-location", "log_include_location", true},
	{"log-json", "log_json", true},
	{"log-level", "log_level", false},
	{"meta", "client.meta", false},
	{"network-interface", "client.network_interface", false},
	{"network-speed", "client.network_speed", false},
	{"node", "name", false},
	{"node-class", "client.node_class", false},
	{"node-pool", "client.node_pool", false},
	{"plugin-dir", "plugin_dir", false},
	{"preferred-address-family", "client.preferred_address_family", false},
	{"raft-protocol", "server.raft_protocol", false},
	{"region", "region", false},
	{"rejoin", "server.rejoin_after_leave", true},
	{"retry-interval", "server.server_join.retry_interval", false},
	{"retry-join", "server.server_join.retry_join", false},
	{"retry-max", "server.server_join.retry_max", false},
	{"server", "server.enabled", true},
	{"servers", "client.servers", false},
	{"state-dir", "client.state_dir", false},
	{"vault-address", "vault.address", false},
	{"vault-ca-file", "vault.ca_file", false},
	{"vault-ca-path", "vault.ca_path", false},
	{"vault-cert-file", "vault.cert_file", false},
	{"vault-create-from-role", "vault.create_from_role", false},
	{"vault-enabled", "vault.enabled", true},
	{"vault-key-file", "vault.key_file", false},
	{"vault-namespace", "vault.namespace", false},
	{"vault-tls-server-name", "vault.tls_server_name", false},
	{"vault-tls-skip-verify", "vault.tls_skip_verify", true},
}

// Options holds the values of the flags.
type Options struct {
	dev bool
	// devConsul and devConnect are -dev with a consul block, and with the service mesh.
	devConsul, devConnect bool
	devVault              bool // -dev with a vault block
	config                []string
	// otherMachine makes missing certificate files a warning.
	otherMachine bool
	introToken   string
	adoptNone    bool
	given        []keyFlag
}

// keyFlag is a flag of flagTable with its value.
type keyFlag struct{ name, path, text string }

// Declare adds the flags of the agent command to set. The options are filled when set is parsed.
func Declare(set *flag.FlagSet) *Options {
	o := &Options{}
	set.BoolVar(&o.dev, "dev", false, "Run a server and a client in one process, in memory, on the loopback address.")
	set.BoolVar(&o.devConsul, "dev-consul", false, "The same as -dev, with the Consul agent of this machine and identities for it.")
	set.BoolVar(&o.devConnect, "dev-connect", false,
		"The same as -dev-consul, for jobs of the service mesh: needs root, and the program consul in PATH.")
	set.BoolVar(&o.devVault, "dev-vault", false, "The same as -dev, with the Vault of this machine and an identity for it.")
	set.StringVar(&o.introToken, "client-intro-token", "",
		"The introduction `token` of the first registration; the variable NOMAD_CLIENT_INTRO_TOKEN overrides it.")
	set.BoolVar(&o.adoptNone, "adopt-none", false,
		"Report allocations as lost if another build of the client started their processes. You must end these processes.")
	set.Func("config", "A configuration file or directory at `path`; may be repeated, and later ones take precedence.",
		func(path string) error { o.config = append(o.config, path); return nil })
	for _, row := range flagTable {
		take := func(text string) error {
			o.given = append(o.given, keyFlag{row.name, row.path, text})
			return nil
		}
		if usage := "Sets " + row.path + " of the configuration"; row.isBool {
			set.BoolFunc(row.name, usage+".", take)
		} else {
			set.Func(row.name, usage+" to `value`.", take)
		}
	}
	return o
}

// Settings returns the checked settings of an agent. It applies defaults, -dev, files in order,
// then flags.
func (o *Options) Settings() (*Settings, error) {
	s := Default()
	s.otherMachine = o.otherMachine
	if o.dev = o.dev || o.devConsul || o.devConnect || o.devVault; o.dev {
		s.presetDev()
	}
	if o.devConsul || o.devConnect {
		s.presetConsul()
	}
	if o.devVault {
		s.presetVault()
	}
	if o.devConnect {
		if err := s.presetConnect(); err != nil {
			return nil, err
		}
	}
	if err := s.load(o.config...); err != nil {
		return nil, err
	}
	var errs []error
	for _, f := range o.given {
		errs = append(errs, s.setFlag(f.name, f.path, f.text))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if o.dev { // files and flags cannot disable a role
		s.Server.Enabled, s.Client.Enabled = true, true
	}
	s.completeVault(os.Getenv)
	s.selectLogBackend()
	s.adoptNone = o.adoptNone
	if s.introToken = os.Getenv("NOMAD_CLIENT_INTRO_TOKEN"); s.introToken == "" {
		s.introToken = o.introToken
	}
	if err := s.resolve(); err != nil {
		return nil, errors.Join(err, s.check())
	}
	return s, s.check()
}

// Validate checks configuration files and directories as an agent does at start. TLS files that do
// not exist are warnings, because they may exist on another machine only.
func Validate(paths []string) (warnings []string, err error) {
	o := &Options{config: paths, otherMachine: true}
	s, err := o.Settings()
	if err != nil {
		return nil, err
	}
	return s.missing, nil
}

// Parse returns the settings of an agent from the arguments of its command.
func Parse(args []string) (*Settings, error) {
	set := flag.NewFlagSet("agent", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	o := Declare(set)
	if err := set.Parse(args); err != nil {
		return nil, err
	}
	if set.NArg() > 0 {
		return nil, fmt.Errorf("the agent command takes no arguments, got %q", strings.Join(set.Args(), " "))
	}
	return o.Settings()
}
