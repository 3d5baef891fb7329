package acl

import (
	"maps"
	"slices"
	"strings"
)

// Kind is a kind of object in rules. Its value is the name of the block.
type Kind string

// The kinds.
const (
	Namespaces  Kind = "namespace"
	Variables   Kind = "variables"
	NodePools   Kind = "node_pool"
	HostVolumes Kind = "host_volume"
	Nodes       Kind = "node"
	Agents      Kind = "agent"
	Operators   Kind = "operator"
	Quotas      Kind = "quota"
	Plugins     Kind = "plugin"
	Sentinels   Kind = "sentinel"
)

// NamespaceCapability is a capability in a namespace.
type NamespaceCapability string

// The rights in a namespace.
const (
	ListJobs                  NamespaceCapability = "list-jobs"
	ParseJob                  NamespaceCapability = "parse-job"
	ReadJob                   NamespaceCapability = "read-job"
	SubmitJob                 NamespaceCapability = "submit-job"
	RegisterJob               NamespaceCapability = "register-job"
	RevertJob                 NamespaceCapability = "revert-job"
	DeregisterJob             NamespaceCapability = "deregister-job"
	PurgeJob                  NamespaceCapability = "purge-job"
	EvaluateJob               NamespaceCapability = "evaluate-job"
	PlanJob                   NamespaceCapability = "plan-job"
	TagJobVersion             NamespaceCapability = "tag-job-version"
	StableJob                 NamespaceCapability = "stable-job"
	DispatchJob               NamespaceCapability = "dispatch-job"
	ForcePeriodicJob          NamespaceCapability = "force-periodic-job"
	ReadLogs                  NamespaceCapability = "read-logs"
	ReadFS                    NamespaceCapability = "read-fs"
	AllocExec                 NamespaceCapability = "alloc-exec"
	AllocNodeExec             NamespaceCapability = "alloc-node-exec"
	AllocLifecycle            NamespaceCapability = "alloc-lifecycle"
	GCAllocation              NamespaceCapability = "gc-allocation"
	PauseAllocation           NamespaceCapability = "pause-allocation"
	FailDeployment            NamespaceCapability = "fail-deployment"
	PauseDeployment           NamespaceCapability = "pause-deployment"
	PromoteDeployment         NamespaceCapability = "promote-deployment"
	UnblockDeployment         NamespaceCapability = "unblock-deployment"
	CancelDeployment          NamespaceCapability = "cancel-deployment"
	SetAllocHealthDeployment  NamespaceCapability = "set-alloc-health-deployment"
	DeleteServiceRegistration NamespaceCapability = "delete-service-registration"
	ListScalingPolicies       NamespaceCapability = "list-scaling-policies"
	ReadScalingPolicy         NamespaceCapability = "read-scaling-policy"
	ReadJobScaling            NamespaceCapability = "read-job-scaling"
	ScaleJob                  NamespaceCapability = "scale-job"
	SubmitRecommendation      NamespaceCapability = "submit-recommendation"
	CSIListVolume             NamespaceCapability = "csi-list-volume"
	CSIReadVolume             NamespaceCapability = "csi-read-volume"
	CSIMountVolume            NamespaceCapability = "csi-mount-volume"
	CSIWriteVolume            NamespaceCapability = "csi-write-volume"
	CSIRegisterPlugin         NamespaceCapability = "csi-register-plugin"
	HostVolumeRead            NamespaceCapability = "host-volume-read"
	HostVolumeCreate          NamespaceCapability = "host-volume-create"
	HostVolumeRegister        NamespaceCapability = "host-volume-register"
	HostVolumeWrite           NamespaceCapability = "host-volume-write"
	HostVolumeDelete          NamespaceCapability = "host-volume-delete"
	SentinelOverride          NamespaceCapability = "sentinel-override"
	// PrivilegedExecution is the right to run tasks with privileged = true. Only open-nomad has it.
	PrivilegedExecution NamespaceCapability = "privileged-execution"
	// AllocPortForward is the right to connect to the ports of allocations. Only open-nomad has it.
	AllocPortForward NamespaceCapability = "alloc-port-forward"
)

// VariableCapability is a capability on variables.
type VariableCapability string

// The rights on variables.
const (
	VariableList    VariableCapability = "list"
	VariableRead    VariableCapability = "read"
	VariableWrite   VariableCapability = "write"
	VariableDestroy VariableCapability = "destroy"
)

// NodePoolCapability is a capability on a node pool.
type NodePoolCapability string

// The rights on node pools.
const (
	NodePoolRead   NodePoolCapability = "read"
	NodePoolWrite  NodePoolCapability = "write"
	NodePoolDelete NodePoolCapability = "delete"
)

// HostVolumeCapability is a capability on static host volumes.
type HostVolumeCapability string

// The rights on host volumes.
const (
	MountReadOnly  HostVolumeCapability = "mount-readonly"
	MountReadWrite HostVolumeCapability = "mount-readwrite"
)

// OperatorCapability is a capability of operators.
type OperatorCapability string

// The rights of operators.
const (
	SnapshotSave  OperatorCapability = "snapshot-save"
	LicenseRead   OperatorCapability = "license-read"
	KeyringRotate OperatorCapability = "keyring-rotate"
	KeyringRead   OperatorCapability = "keyring-read"
	KeyringDelete OperatorCapability = "keyring-delete"
)

// Values of the policy key. They are also the rights of kinds without capabilities.
const (
	wordDeny  = "deny"
	wordRead  = "read"
	wordWrite = "write"
	wordList  = "list"
	wordScale = "scale"
)

// rights is a bit set of rights of one kind.
type rights uint64

// anyRight contains all rights.
const anyRight = ^rights(0)

// vocabulary defines the valid names, policies and capabilities of a kind.
type vocabulary struct {
	kind Kind
	// names lists the characters that are valid in names, except letters and digits. It is
	// empty for a block without a name.
	names string
	// short maps the values of the policy key to rights. It is nil for a kind without this
	// key. Deny is always valid.
	short map[string][]string
	// capabilities lists the capabilities. It is nil for a kind without this key.
	capabilities []string
	// implies maps a capability to additional rights.
	implies map[string][]string
	// bit maps each right to its bit.
	bit map[string]rights
}

var (
	namespaceWords = vocabulary{
		kind: Namespaces, names: "-*",
		short: map[string][]string{
			wordRead:  namespaceRead,
			wordWrite: append(slices.Clone(namespaceRead), namespaceWrite...),
			wordScale: {"list-scaling-policies", "read-scaling-policy", "read-job-scaling", "scale-job", "read-job", "submit-recommendation"},
		},
		capabilities: append(append(slices.Clone(namespaceRead), namespaceWrite...), namespaceFine...),
		implies: map[string][]string{
			"host-volume-create":   {"host-volume-read"},
			"host-volume-register": {"host-volume-create", "host-volume-read"},
			"host-volume-write":    {"host-volume-register", "host-volume-create", "host-volume-delete", "host-volume-read"},
		},
	}.ready()
	variableWords = vocabulary{
		kind: Variables, names: "-_~/*",
		capabilities: []string{"list", "read", "write", "destroy"},
		implies:      map[string][]string{"read": {"list"}},
	}.ready()
	nodePoolWords = vocabulary{
		kind: NodePools, names: "-_*",
		short:        map[string][]string{wordRead: {"read"}, wordWrite: {"read", "write", "delete"}},
		capabilities: []string{"read", "write", "delete"},
	}.ready()
	hostVolumeWords = vocabulary{
		kind: HostVolumes, names: "-*",
		short:        map[string][]string{wordRead: {"mount-readonly"}, wordWrite: {"mount-readonly", "mount-readwrite"}},
		capabilities: []string{"mount-readonly", "mount-readwrite"},
	}.ready()
	operatorWords = vocabulary{
		kind: Operators,
		short: map[string][]string{
			wordRead:  {wordRead, "license-read", "keyring-read"},
			wordWrite: {wordRead, wordWrite, "snapshot-save", "license-read", "keyring-rotate", "keyring-read", "keyring-delete"},
		},
		capabilities: []string{"snapshot-save", "license-read", "keyring-rotate", "keyring-read", "keyring-delete"},
	}.ready()
	nodeWords     = vocabulary{kind: Nodes, short: readWrite}.ready()
	agentWords    = vocabulary{kind: Agents, short: readWrite}.ready()
	quotaWords    = vocabulary{kind: Quotas, short: readWrite}.ready()
	sentinelWords = vocabulary{kind: Sentinels, short: readWrite}.ready()
	pluginWords   = vocabulary{kind: Plugins, short: map[string][]string{
		wordList: {wordList}, wordRead: {wordList, wordRead}, wordWrite: {wordList, wordRead, wordWrite},
	}}.ready()
)

// vocabularies lists all kinds. Variables is the only one that is not a top-level block.
var vocabularies = map[Kind]*vocabulary{
	Namespaces: namespaceWords, Variables: variableWords, NodePools: nodePoolWords, HostVolumes: hostVolumeWords,
	Nodes: nodeWords, Agents: agentWords, Operators: operatorWords, Quotas: quotaWords, Plugins: pluginWords, Sentinels: sentinelWords,
}

var readWrite = map[string][]string{wordRead: {wordRead}, wordWrite: {wordRead, wordWrite}}

// The capabilities in a namespace: those of policy read, those that write adds, and those
// that must be listed explicitly.
var (
	namespaceRead = []string{
		"list-jobs", "parse-job", "read-job", "csi-list-volume", "csi-read-volume", "read-job-scaling",
		"list-scaling-policies", "read-scaling-policy", "host-volume-read",
	}
	namespaceWrite = []string{
		"scale-job", "submit-job", "dispatch-job", "read-logs", "read-fs", "alloc-exec", "alloc-lifecycle",
		"csi-mount-volume", "csi-write-volume", "submit-recommendation", "host-volume-create",
	}
	namespaceFine = []string{
		"alloc-node-exec", "sentinel-override", "csi-register-plugin", "host-volume-register", "host-volume-write",
		"host-volume-delete", "register-job", "revert-job", "deregister-job", "purge-job", "evaluate-job", "plan-job",
		"tag-job-version", "stable-job", "fail-deployment", "pause-deployment", "promote-deployment",
		"unblock-deployment", "cancel-deployment", "set-alloc-health-deployment", "gc-allocation", "pause-allocation",
		"force-periodic-job", "delete-service-registration", string(PrivilegedExecution), string(AllocPortForward),
	}
)

// ready assigns a bit to each right.
func (v vocabulary) ready() *vocabulary {
	v.bit = map[string]rights{}
	for _, word := range v.capabilities {
		v.number(word)
	}
	for _, words := range v.short {
		for _, word := range words {
			v.number(word)
		}
	}
	return &v
}

func (v *vocabulary) number(word string) {
	if _, ok := v.bit[word]; !ok {
		v.bit[word] = 1 << len(v.bit)
	}
}

// granted returns the rights of a policy value or a capability.
func (v *vocabulary) granted(word string, short bool) rights {
	words := v.short[word]
	if !short {
		words = append([]string{word}, v.implies[word]...)
	}
	var all rights
	for _, w := range words {
		all |= v.bit[w]
	}
	return all
}

// policyWords returns the values of the policy key in alphabetical order.
func (v *vocabulary) policyWords() []string {
	words := []string{wordDeny}
	for word := range v.short {
		words = append(words, word)
	}
	slices.Sort(words)
	return words
}

// validName reports whether name is valid for a block of the kind. maxName is the maximum
// length.
func (v *vocabulary) validName(name string) bool {
	if name == "" || len(name) > maxName {
		return false
	}
	for _, c := range []byte(name) {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !letter && strings.IndexByte(v.names, c) < 0 {
			return false
		}
	}
	return true
}

const maxName = 128

// Rights lists the rights of a kind in alphabetical order. It is empty for an unknown kind.
func Rights(kind Kind) []string {
	words := vocabularies[kind]
	if words == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(words.bit))
}
