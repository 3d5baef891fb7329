package taskhook

import (
	"context"
	"log/slog"
	"net/netip"
	"time"

	"github.com/open-nomad/open-nomad/client/allocdir"
	"github.com/open-nomad/open-nomad/client/artifact"
	"github.com/open-nomad/open-nomad/client/connect"
	"github.com/open-nomad/open-nomad/client/consul"
	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/client/secret"
	"github.com/open-nomad/open-nomad/client/service"
	"github.com/open-nomad/open-nomad/client/template"
	agent "github.com/open-nomad/open-nomad/internal/consul"
	"github.com/open-nomad/open-nomad/internal/vault"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Identities holds the tokens of the allocation (identity.Manager).
type Identities interface {
	Default(task string) idtoken.Token
	Watch(h message.WIHandle) (<-chan idtoken.Token, func())
	Downloaded(ctx context.Context, task string, digests map[string]string) error
}

// Users assigns uids to tasks without a user (driverset.Users).
type Users interface {
	Assign(owner string) (int, error)
	Claim(uid int, owner string) error
	Contains(uid int) bool
}

// Deps holds the dependencies that all tasks of the node share. Package client sets them.
type Deps struct {
	Users      Users
	API        *API             // of the task's socket, nil for none
	Confiner   drivers.Confiner // confines sidecars of drivers that cannot
	Artifacts  *artifact.Fetcher
	Volumes    func() map[string]*nomad.ClientHostVolumeConfig // those of the node now; nil means those of Config.Node
	CSIVolumes CSIVolumes                                      // nil: the node mounts none
	Devices    Devices                                         // nil: the node has none
	Template   template.Config
	ReadConsul *agent.Agent      // that templates read; nil: they read native services and variables
	ReadVault  *vault.Cluster    // that templates use; nil: their functions of Vault are refused
	HostEnv    map[string]string // the agent's, without the denylist, for drivers without isolation or with a chroot
	Denied     DeniedUsers
	StatsEvery time.Duration // sampling interval of resource usage; 0 means 1 s
	Sampler    *Sampler      // samples the usage of drivers that can measure at once; nil for none
	Metrics    Metrics
	Services   *service.Registrar // nil: native services are not enabled
	Consul     consul.Reconciler  // nil: the node has no Consul
	Mesh       *connect.Node      // nil: the node has no Consul
	Checks     Checks             // nil: no checks
	Sinks      LogSinks           // nil for none
	Spiffe     *Spiffe            // nil: tasks with a spiffe block do not start
	Secrets    *secret.Node       // fetches the values of secret blocks
	DNS        DNS                // nil: the node does not resolve services
	CSI        *CSI               // nil: tasks with a csi_plugin block do not start
}

// DNS is the node's DNS server for services.
type DNS interface {
	// Gateways returns the addresses at which groups on the bridge can ask, none if they cannot.
	Gateways(ctx context.Context) []netip.Addr
}

// Config is the input of a hook's constructor: the dependencies and the task.
type Config struct {
	Deps
	Alloc        *nomad.Allocation
	Task         *nomad.Task
	Node         *nomad.Node
	Dir          *allocdir.Dir
	Capabilities drivers.Capabilities
	Identities   Identities
	Tokens       ConsulTokens // nil: the allocation has no tokens of Consul
	VaultTokens  VaultTokens  // nil: the allocation has no tokens of Vault
	Control      Control
	Usage        func(*message.TaskResourceUsage) // receives each sample
	Log          *slog.Logger                     // with the attributes alloc and task
}

// Order returns the hooks of a task in the order in which they run.
func Order(c Config) []hook.Hook {
	identities := newIdentityHook(c)
	return []hook.Hook{
		newValidateHook(c),
		newUserHook(c),
		newDirectoryHook(c),
		newEnvironmentHook(c),
		identities,
		newVaultHook(c),
		newSecretsHook(c),
		newConsulTaskHook(c),
		newSocketHook(c),
		newSpiffeHook(c),
		newDNSHook(c),
		newVolumeHook(c),
		newCSIPluginHook(c),
		newDevicesHook(c),
		newArtifactHook(c),
		&renewalHook{identities},
		newLogsHook(c),
		newSinksHook(c),
		newDispatchHook(c),
		newTemplateHook(c),
		newServiceHook(c),
		newConsulServiceHook(c),
		newEnvoyVersionHook(c),
		newBootstrapHook(c),
		newNativeHook(c),
		newScriptsHook(c),
		newStatsHook(c),
	}
}
