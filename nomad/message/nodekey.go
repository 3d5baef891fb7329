package message

// NodeChallengeRequest is the request of Node.Challenge: an agent that is about to register a node with a key.
type NodeChallengeRequest struct {
	NodeID string
	Key    []byte
	WriteRequest
}

// NodeChallengeResponse is the reply of Node.Challenge.
type NodeChallengeResponse struct {
	Nonce []byte
	WriteMeta
}
