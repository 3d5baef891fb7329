package nomad

// The states of a check, and what it affects: a deployment waits for healthiness checks only.
const (
	CheckSuccess CheckStatus = "success"
	CheckFailure CheckStatus = "failure"
	CheckPending CheckStatus = "pending"
	Healthiness  CheckMode   = "healthiness"
	Readiness    CheckMode   = "readiness"
)

// ServiceRegistration is one address of a service. The client of the allocation writes it. It has no health: failing
// checks do not hide a service.
type ServiceRegistration struct {
	ID          string // see RegistrationID
	ServiceName string
	Namespace   string // of the job
	NodeID      string
	Datacenter  string // of the node
	JobID       string
	AllocID     string
	Tags        []string
	Address     string
	Port        int // 0 if the service has no port
	CreateIndex uint64
	ModifyIndex uint64
}

// RegistrationID returns the ID of a registration. workload is the name of the task, or GroupWorkload. port is the
// label of the port as the job has it, perhaps empty. Source: compat/services-network.md, section 2.
func RegistrationID(alloc, workload, service, port string) string {
	return "_nomad-task-" + alloc + "-" + workload + "-" + service + "-" + port
}

// GroupWorkload returns the workload name of the services of a group.
func GroupWorkload(group string) string { return "group-" + group }

// ServiceRegistrationListStub lists the services of one namespace.
type ServiceRegistrationListStub struct {
	Namespace string
	Services  []*ServiceRegistrationStub
}

// ServiceRegistrationStub is the name of a service with the tags of all its registrations.
type ServiceRegistrationStub struct {
	ServiceName string
	Tags        []string
}
