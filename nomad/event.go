package nomad

// Topic is what an event is about.
type Topic string

// The topics of events (compat/http-conventions.md).
const (
	TopicDeployment     Topic = "Deployment"
	TopicEvaluation     Topic = "Evaluation"
	TopicAllocation     Topic = "Allocation"
	TopicJob            Topic = "Job"
	TopicNode           Topic = "Node"
	TopicNodePool       Topic = "NodePool"
	TopicACLPolicy      Topic = "ACLPolicy"
	TopicACLToken       Topic = "ACLToken"
	TopicACLRole        Topic = "ACLRole"
	TopicACLAuthMethod  Topic = "ACLAuthMethod"
	TopicACLBindingRule Topic = "ACLBindingRule"
	TopicService        Topic = "Service"
	TopicHostVolume     Topic = "HostVolume"
	TopicCSIVolume      Topic = "CSIVolume"
	TopicCSIPlugin      Topic = "CSIPlugin"
	TopicOperator       Topic = "Operator"
	TopicVariable       Topic = "Variable"
	TopicAll            Topic = "*"
)

// The types of events: which command of the log they come from.
const (
	TypeNodeRegistration              = "NodeRegistration"
	TypeNodeDeregistration            = "NodeDeregistration"
	TypeNodeEligibilityUpdate         = "NodeEligibility"
	TypeNodeDrain                     = "NodeDrain"
	TypeNodeEvent                     = "NodeStreamEvent"
	TypeNodePoolUpserted              = "NodePoolUpserted"
	TypeNodePoolDeleted               = "NodePoolDeleted"
	TypeDeploymentUpdate              = "DeploymentStatusUpdate"
	TypeDeploymentAllocHealth         = "DeploymentAllocHealth"
	TypeAllocationUpdated             = "AllocationUpdated"
	TypeAllocationUpdateDesiredStatus = "AllocationUpdateDesiredStatus"
	TypeEvalUpdated                   = "EvaluationUpdated"
	TypeJobRegistered                 = "JobRegistered"
	TypeJobDeregistered               = "JobDeregistered"
	TypeJobBatchDeregistered          = "JobBatchDeregistered"
	TypePlanResult                    = "PlanResult"
	TypeACLTokenDeleted               = "ACLTokenDeleted"
	TypeACLTokenUpserted              = "ACLTokenUpserted"
	TypeACLPolicyDeleted              = "ACLPolicyDeleted"
	TypeACLPolicyUpserted             = "ACLPolicyUpserted"
	TypeACLRoleDeleted                = "ACLRoleDeleted"
	TypeACLRoleUpserted               = "ACLRoleUpserted"
	TypeACLAuthMethodUpserted         = "ACLAuthMethodUpserted"
	TypeACLAuthMethodDeleted          = "ACLAuthMethodDeleted"
	TypeACLBindingRuleUpserted        = "ACLBindingRuleUpserted"
	TypeACLBindingRuleDeleted         = "ACLBindingRuleDeleted"
	TypeVariableUpdated               = "VariableUpdated"
)

// Event tells of one thing as it is after the log entry at Index. Key is its ID or name;
// FilterKeys are those of things that it belongs to. Payload holds no secret.
type Event struct {
	Topic      Topic
	Type       string
	Key        string
	Namespace  string
	FilterKeys []string
	Index      uint64
	Payload    any
}

// EventJson is a line of an event stream: {} or the events of one log entry, as JSON.
type EventJson struct {
	Data []byte
}

// EventStreamRequest is the request of Event.Stream. A topic has the keys that are asked
// for, "*" for all; Index is the first one of interest, 0 for all that are kept.
type EventStreamRequest struct {
	Topics map[Topic][]string
	Index  int
	QueryOptions
}

// EventStreamWrapper is what Event.Stream sends: a line, or why the stream ends.
type EventStreamWrapper struct {
	Error *RpcError
	Event *EventJson
}
