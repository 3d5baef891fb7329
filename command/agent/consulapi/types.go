package consulapi

// The structures below have the names and the fields of Consul's. Filters select by the same names.

type node struct {
	ID              string
	Node            string
	Address         string
	Datacenter      string
	TaggedAddresses map[string]string
	Meta            map[string]string
	CreateIndex     uint64
	ModifyIndex     uint64
}

type weights struct {
	Passing int
	Warning int
}

type serviceAddress struct {
	Address string
	Port    int
}

// empty is an object of Consul that has no fields here.
type empty struct{}

// service is a service of an agent or of a node.
type service struct {
	Kind              string `json:",omitempty"`
	ID                string
	Service           string
	Tags              []string
	Meta              map[string]string
	Port              int
	Address           string
	TaggedAddresses   map[string]serviceAddress
	Weights           weights
	EnableTagOverride bool
	Proxy             empty
	Connect           empty
	Namespace         string `json:",omitempty"`
	Datacenter        string `json:",omitempty"`
	ContentHash       string `json:",omitempty"`
	CreateIndex       uint64
	ModifyIndex       uint64
}

// catalogService is a service with its node in one object.
type catalogService struct {
	ID                       string // of the node
	Node                     string
	Address                  string
	Datacenter               string
	TaggedAddresses          map[string]string
	NodeMeta                 map[string]string
	ServiceKind              string
	ServiceID                string
	ServiceName              string
	ServiceTags              []string
	ServiceAddress           string
	ServiceTaggedAddresses   map[string]serviceAddress
	ServiceWeights           weights
	ServiceMeta              map[string]string
	ServicePort              int
	ServiceEnableTagOverride bool
	ServiceProxy             empty
	ServiceConnect           empty
	Namespace                string `json:",omitempty"`
	CreateIndex              uint64
	ModifyIndex              uint64
}

type check struct {
	Node        string
	CheckID     string
	Name        string
	Status      string
	Notes       string
	Output      string
	ServiceID   string
	ServiceName string
	ServiceTags []string
	Type        string
	Definition  empty
	Namespace   string `json:",omitempty"`
	CreateIndex uint64
	ModifyIndex uint64
}

// serviceEntry is a service with its node and its checks.
type serviceEntry struct {
	Node    node
	Service service
	Checks  []check
}

type catalogNode struct {
	Node     node
	Services map[string]service
}

type nodeServices struct {
	Node     node
	Services []service
}

type serviceHealth struct {
	AggregatedStatus string
	Service          service
	Checks           []check
}

type kvPair struct {
	LockIndex   uint64
	Key         string
	Flags       uint64
	Value       []byte
	CreateIndex uint64
	ModifyIndex uint64
}
