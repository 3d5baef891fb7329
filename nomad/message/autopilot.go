package message

import (
	"github.com/open-nomad/open-nomad/nomad"
	"strconv"
	"time"
)

// AutopilotSetConfigRequest is the request of Operator.AutopilotSetConfiguration. With CAS, the configuration
// is stored only if its current index equals Config.ModifyIndex.
type AutopilotSetConfigRequest struct {
	Datacenter string
	Config     nomad.AutopilotConfig
	CAS        bool
	WriteRequest
}

// OperatorHealthReply is the reply of Operator.ServerHealth: the health of the servers of a region.
// FailureTolerance is the number of voters that may fail before the region loses its leader.
// ReadReplicas are the servers that never vote.
type OperatorHealthReply struct {
	Healthy                    bool
	FailureTolerance           int
	Servers                    []ServerHealth
	Leader                     string
	Voters                     []string
	ReadReplicas               []string
	OptimisticFailureTolerance int
	// Warnings lists settings that an operator should change (open-nomad only).
	Warnings []string `codec:",omitempty"`
	// Unserved describes the stored features that this version does not support (open-nomad only).
	Unserved []string `codec:",omitempty"`
}

// MemberStatus is the numeric status of a gossip member.
type MemberStatus int

// The numbers of MemberStatus.
const (
	MemberNone    MemberStatus = 0
	MemberAlive   MemberStatus = 1
	MemberLeaving MemberStatus = 2
	MemberLeft    MemberStatus = 3
	MemberFailed  MemberStatus = 4
)

var memberStatuses = map[MemberStatus]string{
	MemberNone: "none", MemberAlive: "alive", MemberLeaving: "leaving", MemberLeft: "left", MemberFailed: "failed",
}

// MemberStatusOf returns the number for a status name, as used in ServerMember.
func MemberStatusOf(name string) MemberStatus {
	for status, known := range memberStatuses {
		if known == name {
			return status
		}
	}
	return MemberNone
}

func (s MemberStatus) String() string {
	if name, ok := memberStatuses[s]; ok {
		return name
	}
	return "unknown status " + strconv.Itoa(int(s))
}

// ServerHealth is the health of one server. LastContact is negative if the server never had contact with
// a leader or did not answer.
type ServerHealth struct {
	ID          string
	Name        string
	Address     string
	SerfStatus  MemberStatus
	Version     string
	Leader      bool
	LastContact time.Duration
	LastTerm    uint64
	LastIndex   uint64
	Healthy     bool
	Voter       bool
	StableSince time.Time
}
