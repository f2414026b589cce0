package serve

// The bodies of requests and answers. schemaOf makes the OpenAPI description of their tags. A request has exactly one
// of its fields with the tag choice.

// SearchRequest asks for images. It has a query, a vector or a picture. A null field counts as missing.
type SearchRequest struct {
	Query    *string     `json:"query,omitempty" doc:"A caption, tokenised as in training." choice:"yes"`
	Vector   *FloatArray `json:"vector,omitempty" doc:"An embedding of dim numbers (/v1/info), instead of a query." choice:"yes"`
	Picture  []byte      `json:"picture,omitempty" doc:"A JPEG, PNG, WebP or GIF file in base64, instead of a query: finds similar images." choice:"yes"`
	K        *int        `json:"k,omitempty" doc:"Images to find (default: 10)." min:"1" max:"max_k"`
	Split    *string     `json:"split,omitempty" doc:"The split to search, one of /v1/info (default: the first)." enum:"splits"`
	Captions *int        `json:"captions,omitempty" doc:"Captions of each image to return (default: 0)." min:"0" max:"1000"`
}

// SearchAnswer lists the images, the best first.
type SearchAnswer struct {
	Split   string   `json:"split" doc:"The split that was searched."`
	Version int      `json:"version" doc:"The version of its index, which grows when images come or go."`
	Scored  int      `json:"scored" doc:"Images that were compared: all, or the shortlist."`
	Unknown []string `json:"unknown" doc:"Words of the query that the vocabulary lacks; they were searched as <unk>."`
	Hits    []Hit    `json:"hits" doc:"The images, best first."`
}

// Hit is an image that was found.
type Hit struct {
	Rank     int      `json:"rank" doc:"From 1."`
	Image    int      `json:"image" doc:"The number of the image in the split, from 0."`
	ID       string   `json:"id" doc:"The id of the ids file, or the number."`
	Score    float64  `json:"score" doc:"The score of evaluation."`
	Captions []string `json:"captions" doc:"Captions of the image in the split, at most the requested number."`
}

// EmbedRequest asks for embeddings of captions, of images or of pictures.
type EmbedRequest struct {
	Captions []string     `json:"captions,omitempty" doc:"Captions to embed." choice:"yes" min:"1" max:"max_items"`
	Images   []FloatArray `json:"images,omitempty" doc:"Images to embed: for each image its regions one after the other, regions times feature numbers (/v1/info)." choice:"yes" min:"1" max:"max_items"`
	Pictures [][]byte     `json:"pictures,omitempty" doc:"Pictures to embed: JPEG, PNG, WebP or GIF files in base64." choice:"yes" min:"1" max:"max_items"`
	Encoding *string      `json:"encoding,omitempty" doc:"How embeddings are returned." enum:"float,base64"`
}

// EmbedAnswer has an embedding for each caption or image, in their order.
type EmbedAnswer struct {
	Dim        int          `json:"dim" doc:"Numbers of an embedding."`
	Embeddings []FloatArray `json:"embeddings" doc:"The embeddings. The score of an image and a caption is their dot product, unless the network scores by order (model.vsepp.measure)."`
	Unknown    [][]string   `json:"unknown" doc:"For each caption, the words that the vocabulary lacks."`
}

// InfoAnswer describes what is served.
type InfoAnswer struct {
	Version     string      `json:"version" doc:"The version of the program."`
	Network     string      `json:"network" doc:"The kind of the network."`
	Checkpoints []string    `json:"checkpoints" doc:"The checkpoints, for people; the scores of several are averaged."`
	Shortlist   string      `json:"shortlist" doc:"The embedder that picks candidates; empty if there is none."`
	Splits      []SplitInfo `json:"splits" doc:"What can be searched; the first is the default of requests."`
	Embeds      bool        `json:"embeds" doc:"Whether captions and images have embeddings, so that /v1/embed and vectors work."`
	Dim         int         `json:"dim" doc:"Numbers of an embedding; 0 without embeddings."`
	Regions     int         `json:"regions" doc:"Regions of an image; 0 without embeddings."`
	Feature     int         `json:"feature" doc:"Numbers of a region; 0 without embeddings."`
	Pictures    bool        `json:"pictures" doc:"Whether /v1/search and /v1/embed accept pictures."`
	NoPictures  string      `json:"no_pictures" doc:"Why they do not accept pictures, for people; empty if they do."`
	Changes     bool        `json:"changes" doc:"Whether images can be added and removed."`
	Limits      LimitsInfo  `json:"limits" doc:"What a request may ask for."`
}

// SplitInfo is a split that can be searched.
type SplitInfo struct {
	Name       string   `json:"name" doc:"What a request calls it."`
	Images     int      `json:"images" doc:"Images of the split."`
	Captions   int      `json:"captions" doc:"Captions of the split."`
	Features   string   `json:"features" doc:"Whether the same model made the features of the split and of the training data; otherwise scores mean nothing." enum:"same,different,unknown"`
	Precision  string   `json:"query_precision" doc:"The precision in which captions of /v1/search are embedded."`
	Why        string   `json:"query_precision_note" doc:"Why this precision is used, for people."`
	Change     *float64 `json:"m_recall_change,omitempty" doc:"Change of M-Recall on split dev, in points, if captions are embedded in bf16; missing if it was not measured."`
	Note       string   `json:"features_note" doc:"What is known about the features, for people; empty if the model is the same."`
	Version    int      `json:"version" doc:"The version of the index, from 1; it grows when images come or go."`
	AgeSeconds float64  `json:"age_seconds" doc:"Seconds since this version was first served."`
}

// ReloadRequest asks the server to read the splits again. It is empty.
type ReloadRequest struct{}

// ReloadAnswer describes what is served after a reload.
type ReloadAnswer struct {
	Splits  []ReloadedSplit `json:"splits" doc:"All splits."`
	Seconds float64         `json:"seconds" doc:"How long it took."`
}

// ReloadedSplit is a split after a reload.
type ReloadedSplit struct {
	Name     string `json:"name" doc:"What a request calls it."`
	Images   int    `json:"images" doc:"Images that are served now."`
	Version  int    `json:"version" doc:"The version of the index now."`
	Embedded int    `json:"embedded" doc:"Images that were new and were embedded."`
}

// AddRequest adds a picture to a gallery.
type AddRequest struct {
	ID      string  `json:"id" doc:"The id of the image, which must not be in the gallery."`
	Picture []byte  `json:"picture" doc:"A JPEG, PNG, WebP or GIF file in base64."`
	Split   *string `json:"split,omitempty" doc:"The split, one of /v1/info (default: the first)." enum:"splits"`
}

// RemoveRequest removes images from a gallery, all of them or none.
type RemoveRequest struct {
	IDs   []string `json:"ids" doc:"The ids of the images." min:"1" max:"100000"`
	Split *string  `json:"split,omitempty" doc:"The split, one of /v1/info (default: the first)." enum:"splits"`
}

// ChangeAnswer says that a change is on disk and served.
type ChangeAnswer struct {
	Split   string `json:"split" doc:"The split that has changed."`
	Images  int    `json:"images" doc:"Images that are served now."`
	Version int    `json:"version" doc:"The version of the index now."`
}

// LimitsInfo are the limits of the server.
type LimitsInfo struct {
	MaxK           int     `json:"max_k" doc:"Images of an answer."`
	MaxItems       int     `json:"max_items" doc:"Captions or images of a request for embeddings."`
	MaxBody        int64   `json:"max_body" doc:"Bytes of a request."`
	Queue          int     `json:"queue" doc:"Requests in progress; more get status 429."`
	TimeoutSeconds float64 `json:"timeout_seconds" doc:"Seconds until a request gets status 504."`
}

// HealthAnswer reports whether the server answers queries.
type HealthAnswer struct {
	Status string `json:"status" doc:"ready, starting while images are encoded, stopping after a signal." enum:"ready,starting,stopping"`
}

// ErrorAnswer is the body of every status of 400 and above.
type ErrorAnswer struct {
	Error ErrorInfo `json:"error" doc:"What was wrong."`
}

// ErrorInfo is one error.
type ErrorInfo struct {
	Code    string `json:"code" doc:"For programs, such as bad_request or busy."`
	Message string `json:"message" doc:"For people: what was expected, what was found."`
}
