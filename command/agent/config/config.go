package config

import (
	"maps"
	"time"

	"github.com/open-nomad/open-nomad/nomad/keyring/kms"
)

// Config is the configuration file. The tags of each field hold its key (hcl), its default, and
// the feature that is not implemented yet (later). A key with a later tag must have its default
// value; otherwise the agent does not start.
type Config struct {
	Region                    string              `hcl:"region" default:"global"`
	Datacenter                string              `hcl:"datacenter" default:"dc1"`
	Name                      string              `hcl:"name"`
	DataDir                   string              `hcl:"data_dir"`
	PluginDir                 string              `hcl:"plugin_dir"`
	LogLevel                  string              `hcl:"log_level" default:"INFO"`
	LogJSON                   bool                `hcl:"log_json"`
	LogFile                   string              `hcl:"log_file"`
	LogIncludeLocation        bool                `hcl:"log_include_location"`
	LogRotateDuration         time.Duration       `hcl:"log_rotate_duration" default:"24h"`
	LogRotateBytes            int                 `hcl:"log_rotate_bytes"`
	LogRotateMaxFiles         int                 `hcl:"log_rotate_max_files"`
	BindAddr                  string              `hcl:"bind_addr" default:"0.0.0.0"`
	EnableDebug               bool                `hcl:"enable_debug"`
	Ports                     Ports               `hcl:"ports"`
	Addresses                 Addresses           `hcl:"addresses"`
	Advertise                 Advertise           `hcl:"advertise"`
	Client                    Client              `hcl:"client"`
	Server                    Server              `hcl:"server"`
	RPC                       RPC                 `hcl:"rpc"`
	ACL                       ACL                 `hcl:"acl"`
	Telemetry                 Telemetry           `hcl:"telemetry"`
	LeaveOnInterrupt          bool                `hcl:"leave_on_interrupt"`
	LeaveOnTerminate          bool                `hcl:"leave_on_terminate"`
	EnableSyslog              bool                `hcl:"enable_syslog"`
	SyslogFacility            string              `hcl:"syslog_facility" default:"LOCAL0"`
	DisableUpdateCheck        bool                `hcl:"disable_update_check"`
	DisableAnonymousSignature bool                `hcl:"disable_anonymous_signature"`
	UI                        UI                  `hcl:"ui"`
	TLS                       TLS                 `hcl:"tls"`
	HTTPAPIResponseHeaders    map[string]string   `hcl:"http_api_response_headers"`
	HTTPAPIAllowedHosts       []string            `hcl:"http_api_allowed_hosts"`
	HTTPAPIAllowedOrigins     []string            `hcl:"http_api_allowed_origins"`
	Sentinel                  Sentinel            `hcl:"sentinel" later:"Sentinel"`
	Autopilot                 Autopilot           `hcl:"autopilot"`
	Plugin                    map[string]*Plugin  `hcl:"plugin,once"`
	Limits                    Limits              `hcl:"limits"`
	Audit                     Audit               `hcl:"audit"`
	Reporting                 Reporting           `hcl:"reporting" later:"usage reporting"`
	Keyring                   map[string]*Keyring `hcl:"keyring,named"`
	Eventlog                  Eventlog            `hcl:"eventlog" later:"the Windows event log"`
	Consul                    []*Consul           `hcl:"consul,byname"`
	Vault                     []*Vault            `hcl:"vault,byname"`
}

// Ports is the ports block.
type Ports struct {
	HTTP int `hcl:"http" default:"4646"`
	RPC  int `hcl:"rpc" default:"4647"`
	Serf int `hcl:"serf" default:"4648"`
}

// Addresses is the addresses block.
type Addresses struct {
	HTTP string `hcl:"http"`
	RPC  string `hcl:"rpc"`
	Serf string `hcl:"serf"`
}

// Advertise is the advertise block.
type Advertise struct {
	HTTP string `hcl:"http"`
	RPC  string `hcl:"rpc"`
	Serf string `hcl:"serf"`
}

// Limits is the limits block.
type Limits struct {
	HTTPSHandshakeTimeout time.Duration `hcl:"https_handshake_timeout" default:"5s"`
	HTTPMaxConnsPerClient int           `hcl:"http_max_conns_per_client" default:"100"`
	RPCHandshakeTimeout   time.Duration `hcl:"rpc_handshake_timeout" default:"5s"`
	RPCMaxConnsPerClient  int           `hcl:"rpc_max_conns_per_client" default:"100"`
	HTTPMaxRequestBody    string        `hcl:"http_max_request_body" default:"32MiB"`
}

// Telemetry is the telemetry block.
type Telemetry struct {
	InMemoryCollectionInterval         time.Duration `hcl:"in_memory_collection_interval" default:"10s"`
	InMemoryRetentionPeriod            time.Duration `hcl:"in_memory_retention_period" default:"1m"`
	StatsiteAddress                    string        `hcl:"statsite_address"`
	StatsdAddress                      string        `hcl:"statsd_address"`
	DatadogAddress                     string        `hcl:"datadog_address"`
	DatadogTags                        []string      `hcl:"datadog_tags"`
	PrometheusMetrics                  bool          `hcl:"prometheus_metrics"`
	AllowAnonymousMetrics              bool          `hcl:"allow_anonymous_metrics"`
	DisableHostname                    bool          `hcl:"disable_hostname"`
	UseNodeName                        bool          `hcl:"use_node_name"`
	CollectionInterval                 time.Duration `hcl:"collection_interval" default:"1s"`
	PublishAllocationMetrics           bool          `hcl:"publish_allocation_metrics"`
	PublishNodeMetrics                 bool          `hcl:"publish_node_metrics"`
	IncludeAllocMetadataInMetrics      bool          `hcl:"include_alloc_metadata_in_metrics"`
	AllowedMetadataKeysInMetrics       []string      `hcl:"allowed_metadata_keys_in_metrics"`
	PrefixFilter                       []string      `hcl:"prefix_filter"`
	FilterDefault                      bool          `hcl:"filter_default" default:"true"`
	DisableDispatchedJobSummaryMetrics bool          `hcl:"disable_dispatched_job_summary_metrics"`
	DisableQuotaUtilizationMetrics     bool          `hcl:"disable_quota_utilization_metrics"`
	DisableRPCRateMetricsLabels        bool          `hcl:"disable_rpc_rate_metrics_labels"`
	DisableAllocationHookMetrics       bool          `hcl:"disable_allocation_hook_metrics"`
	CirconusAPIToken                   string        `hcl:"circonus_api_token" later:"sending metrics to Circonus"`
	CirconusAPIApp                     string        `hcl:"circonus_api_app" later:"sending metrics to Circonus"`
	CirconusAPIURL                     string        `hcl:"circonus_api_url" later:"sending metrics to Circonus"`
	CirconusSubmissionInterval         string        `hcl:"circonus_submission_interval" later:"sending metrics to Circonus"`
	CirconusSubmissionURL              string        `hcl:"circonus_submission_url" later:"sending metrics to Circonus"`
	CirconusCheckID                    string        `hcl:"circonus_check_id" later:"sending metrics to Circonus"`
	CirconusCheckForceMetricActivation string        `hcl:"circonus_check_force_metric_activation" later:"sending metrics to Circonus"`
	CirconusCheckInstanceID            string        `hcl:"circonus_check_instance_id" later:"sending metrics to Circonus"`
	CirconusCheckSearchTag             string        `hcl:"circonus_check_search_tag" later:"sending metrics to Circonus"`
	CirconusCheckTags                  string        `hcl:"circonus_check_tags" later:"sending metrics to Circonus"`
	CirconusCheckDisplayName           string        `hcl:"circonus_check_display_name" later:"sending metrics to Circonus"`
	CirconusBrokerID                   string        `hcl:"circonus_broker_id" later:"sending metrics to Circonus"`
	CirconusBrokerSelectTag            string        `hcl:"circonus_broker_select_tag" later:"sending metrics to Circonus"`
}

// Plugin is the plugin block: an instance of a driver. Its label is the name of the instance.
type Plugin struct {
	Backend string         `hcl:"backend"` // the kind of driver; empty for the label
	Args    []string       `hcl:"args"`
	Config  map[string]any `hcl:"config"`
}

// Keyring is a keyring block, identified by its provider and name. Printing it shows no provider
// keys, because some of them are secrets.
type Keyring struct {
	Provider string
	Name     string `hcl:"name"`
	Active   bool   `hcl:"active"`

	provided map[string]string // the keys of the provider
}

// SetLabel sets the provider.
func (k *Keyring) SetLabel(label string) { k.Provider = label }

// SetKey stores a key of the provider.
func (k *Keyring) SetKey(key, text string) {
	if k.provided == nil {
		k.provided = map[string]string{}
	}
	k.provided[key] = text
}

// config returns the configuration of the key provider.
func (k *Keyring) config() kms.Config {
	return kms.Config{Provider: k.Provider, Name: k.Name, Active: k.Active, Keys: maps.Clone(k.provided)}
}

// String returns the provider and the name only.
func (k *Keyring) String() string { return k.config().String() }

// GoString returns the same as String.
func (k *Keyring) GoString() string { return k.String() }
