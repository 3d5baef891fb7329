package message

// EventStreamRequest is the request of Event.Stream. Topics maps each topic to the requested keys; "*" selects
// all keys. Index is the first index to send; 0 selects all retained events.
type EventStreamRequest struct {
	Topics map[Topic][]string
	Index  int
	QueryOptions
}

// Topic is the kind of object that an event is about.
type Topic string

// The topics of events, as in Nomad 2.0.
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

// The types of events. Each corresponds to a Raft command.
const (
	TypeNodeRegistration              = "NodeRegistration"
	TypeNodeDeregistration            = "NodeDeregistration"
	TypeNodeEligibilityUpdate         = "NodeEligibility"
	TypeNodeDrain                     = "NodeDrain"
	TypeNodeEvent                     = "NodeStreamEvent"
	TypeNodePoolUpserted              = "NodePoolUpserted"
	TypeNodePoolDeleted               = "NodePoolDeleted"
	TypeDeploymentUpdate              = "DeploymentStatusUpdate"
	TypeDeploymentPromotion           = "DeploymentPromotion"
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
	TypeServiceRegistration           = "ServiceRegistration"
	TypeServiceDeregistration         = "ServiceDeregistration"
	TypeHostVolumeRegistered          = "HostVolumeRegistered"
	TypeHostVolumeDeleted             = "HostVolumeDeleted"
	TypeCSIVolumeRegistered           = "CSIVolumeRegistered"
	TypeCSIVolumeClaim                = "CSIVolumeClaim"
	TypeCSIVolumeDeregistered         = "CSIVolumeDeregistered"
	TypeCSIPluginDeleted              = "CSIPluginDeleted" // not in Nomad 2.0
)

// Event contains an object in its state after the log entry at Index. Key is its ID or name. FilterKeys are the
// keys of the objects that it belongs to. Payload contains no secrets.
type Event struct {
	Topic      Topic
	Type       string
	Key        string
	Namespace  string
	FilterKeys []string
	Index      uint64
	Payload    any
}

// EventJson is a line of an event stream as JSON: {} or the events of one log entry.
type EventJson struct {
	Data []byte
}

// EventStreamWrapper is a message of Event.Stream: a line, or the error that ends the stream.
type EventStreamWrapper struct {
	Error *RpcError
	Event *EventJson
	// Newest is the newest log entry, in the first message of a stream that was asked to begin behind it. The stream
	// begins with the next entry.
	Newest uint64 `codec:",omitempty"`
}
