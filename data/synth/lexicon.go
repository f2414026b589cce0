package synth

// The lexicon of the synthetic world: everything a scene may hold and the words that name it. The first word of a
// list is its commonest name; later ones are drawn more rarely (Zipf), so that captions paraphrase one another.

// kind groups categories that share actions and attributes. Its bits form masks.
type kind uint8

const (
	person kind = 1 << iota
	animal
	vehicle
	thing
)

// Traits of a category, as bits: where it is found and what can be done with it.
type trait uint16

const (
	indoor trait = 1 << iota
	street
	field
	water
	snow
	rideable // a person can ride it
	holdable // a person can hold or throw it
	seat     // one can sit on it
	edible
	everywhere = indoor | street | field | water | snow
	outdoor    = street | field | water | snow
)

// category is one kind of object. Places of a category lie among the first five traits.
type category struct {
	kind   kind
	traits trait
	size   float64 // typical height, as a share of the picture
	names  string  // blank-separated, singular
}

var categories = []category{
	{person, everywhere, 0.60, "man guy gentleman fellow"},
	{person, everywhere, 0.58, "woman lady female"},
	{person, everywhere, 0.45, "boy lad"},
	{person, everywhere, 0.44, "girl lass"},
	{person, everywhere, 0.36, "child kid youngster toddler"},
	{person, field | street, 0.55, "player athlete sportsman"},
	{person, street | field, 0.55, "cyclist biker"},
	{person, street | indoor, 0.56, "worker laborer builder"},
	{person, water, 0.50, "surfer"},
	{person, snow, 0.50, "skier"},
	{person, indoor, 0.57, "chef cook"},
	{person, indoor | street, 0.56, "musician guitarist performer"},
	{person, indoor | street, 0.55, "dancer ballerina"},
	{person, street | field, 0.57, "soldier guard"},
	{person, snow | field, 0.50, "climber hiker mountaineer"},
	{person, water, 0.42, "swimmer diver"},
	{person, street | water, 0.55, "tourist visitor traveler"},
	{person, indoor, 0.26, "baby infant"},
	{person, street, 0.56, "policeman officer"},
	{person, field, 0.55, "farmer cowboy"},

	{animal, everywhere, 0.30, "dog hound pup"},
	{animal, indoor | street, 0.22, "cat kitten feline"},
	{animal, field | street | snow | rideable, 0.50, "horse pony stallion"},
	{animal, field | water | street, 0.14, "bird sparrow finch"},
	{animal, field, 0.42, "cow bull calf"},
	{animal, field | snow, 0.30, "sheep lamb ram"},
	{animal, water | field, 0.18, "duck mallard goose"},
	{animal, field | water | rideable, 0.70, "elephant"},
	{animal, field, 0.75, "giraffe"},
	{animal, field, 0.48, "zebra"},
	{animal, field | snow | water, 0.45, "bear grizzly cub"},
	{animal, field | street, 0.28, "monkey ape chimp"},
	{animal, field | snow, 0.30, "goat"},
	{animal, field, 0.28, "pig hog piglet"},
	{animal, field | indoor, 0.15, "rabbit bunny hare"},
	{animal, field, 0.18, "chicken hen rooster"},
	{animal, field | snow, 0.42, "deer stag fawn"},
	{animal, water, 0.24, "swan"},
	{animal, street | water, 0.12, "pigeon dove gull"},
	{animal, snow | field, 0.24, "fox"},
	{animal, field | rideable, 0.60, "camel"},
	{animal, water, 0.14, "turtle tortoise"},
	{animal, field | street | rideable, 0.46, "donkey mule"},

	{vehicle, street, 0.35, "car automobile sedan"},
	{vehicle, street | field | rideable, 0.30, "bicycle bike cycle"},
	{vehicle, street, 0.50, "bus coach"},
	{vehicle, street | field, 0.48, "truck lorry pickup"},
	{vehicle, street | field | rideable, 0.34, "motorcycle motorbike"},
	{vehicle, water, 0.35, "boat ship vessel"},
	{vehicle, street, 0.50, "train locomotive tram"},
	{vehicle, street | field, 0.40, "airplane plane jet"},
	{vehicle, street | rideable, 0.26, "scooter moped"},
	{vehicle, street, 0.40, "van minivan"},
	{vehicle, field, 0.42, "tractor"},
	{vehicle, street | field, 0.30, "cart wagon carriage"},
	{vehicle, street | rideable, 0.10, "skateboard longboard"},
	{vehicle, water | rideable, 0.20, "canoe kayak raft"},
	{vehicle, snow | rideable, 0.18, "sled toboggan sledge"},
	{vehicle, water | rideable | holdable, 0.16, "surfboard"},
	{vehicle, snow | rideable | holdable, 0.14, "snowboard"},

	{thing, field | street | water | holdable, 0.10, "ball football basketball"},
	{thing, everywhere | holdable, 0.18, "bag backpack purse sack"},
	{thing, everywhere | holdable, 0.22, "umbrella parasol"},
	{thing, field | street | seat, 0.28, "bench"},
	{thing, indoor | seat, 0.35, "chair stool armchair"},
	{thing, indoor | street | seat, 0.30, "table desk counter"},
	{thing, field | water | holdable, 0.08, "frisbee disc"},
	{thing, field | water | holdable, 0.20, "kite"},
	{thing, everywhere | holdable, 0.10, "camera camcorder"},
	{thing, everywhere | holdable, 0.08, "phone cellphone telephone"},
	{thing, indoor | holdable, 0.28, "guitar banjo"},
	{thing, indoor | street | holdable, 0.12, "bottle flask"},
	{thing, indoor | street | holdable, 0.10, "cup mug glass"},
	{thing, indoor | holdable, 0.12, "book magazine novel"},
	{thing, indoor | street | seat | holdable, 0.24, "box crate carton"},
	{thing, indoor | seat, 0.35, "couch sofa"},
	{thing, indoor | seat, 0.36, "bed mattress"},
	{thing, indoor | street | edible | holdable, 0.10, "sandwich burger"},
	{thing, indoor | edible | holdable, 0.12, "cake pie pastry"},
	{thing, indoor | street | edible | holdable, 0.12, "pizza"},
	{thing, indoor | field | edible | holdable, 0.08, "apple pear peach"},
	{thing, indoor | edible | holdable, 0.08, "banana"},
	{thing, field | indoor | holdable, 0.16, "flower rose tulip"},
	{thing, indoor | street | holdable, 0.14, "basket bucket pail"},
	{thing, indoor | street | holdable, 0.16, "balloon"},
	{thing, street | field | holdable, 0.30, "ladder"},
	{thing, street | field | water | holdable, 0.24, "flag banner"},
	{thing, field | snow | holdable, 0.30, "stick pole branch"},
	{thing, field | street, 0.18, "stone boulder rock"},
	{thing, indoor, 0.20, "computer laptop"},
	{thing, indoor, 0.24, "television screen monitor"},
	{thing, indoor | holdable, 0.14, "pan pot kettle"},
	{thing, field | holdable, 0.20, "bat racket club"},
	{thing, indoor | street | holdable, 0.30, "broom mop shovel"},
	{thing, indoor | holdable, 0.14, "toy doll puppet"},
	{thing, street | indoor | holdable, 0.12, "newspaper paper map"},
	{thing, field | water | holdable, 0.30, "rope net"},
	{thing, indoor | street | holdable, 0.26, "suitcase trunk"},
	{thing, field | street | holdable, 0.30, "drum"},
	{thing, street | field, 0.40, "statue sculpture monument"},
	{thing, street | field, 0.44, "fountain"},
	{thing, field | snow, 0.38, "tent"},
	{thing, field | street | seat, 0.30, "swing hammock"},
	{thing, field | street, 0.44, "slide"},
	{thing, indoor | holdable, 0.14, "pillow cushion blanket towel"},
}

// place is where a scene happens: its names, the trait that decides which categories are found there, and the parts
// of its background from top to bottom.
type place struct {
	trait trait
	prep  string
	names string
	parts string
}

var places = []place{
	{street, "on", "street road avenue", "building window sign pavement"},
	{field, "in", "park", "sky tree grass path"},
	{water, "on", "beach shore seaside", "sky wave sand rock"},
	{field, "in", "field meadow pasture", "sky bush grass fence"},
	{indoor, "in", "room lounge parlor", "wall window curtain floor"},
	{indoor, "in", "kitchen", "wall shelf lamp floor"},
	{field, "in", "yard garden backyard", "building bush grass fence"},
	{street, "in", "city town", "sky building sign pavement"},
	{water, "in", "lake pond", "sky tree wave grass"},
	{field, "in", "forest woods jungle", "tree bush path grass"},
	{snow, "on", "mountain hill", "sky rock snow tree"},
	{street, "on", "sidewalk curb", "building sign fence pavement"},
	{water, "in", "river stream creek", "tree rock wave bush"},
	{indoor, "in", "restaurant cafe diner", "wall lamp window floor"},
	{snow, "on", "slope", "sky tree snow fence"},
	{indoor, "on", "stage", "curtain lamp wall floor"},
	{water, "in", "pool", "building wave fence pavement"},
	{street, "at", "market bazaar", "building sign shelf pavement"},
	{field, "at", "playground", "tree fence path grass"},
	{indoor, "in", "office classroom", "wall window shelf floor"},
	{street, "at", "station terminal", "building sign lamp pavement"},
	{field, "on", "farm ranch", "sky building fence grass"},
	{indoor, "in", "gym hall", "wall lamp window floor"},
	{water, "at", "harbor dock pier", "sky building wave path"},
	{street, "on", "bridge", "sky sign fence pavement"},
	{field, "in", "stadium arena", "sky sign wall grass"},
	{snow, "on", "trail", "sky tree snow rock"},
	{indoor, "in", "shop store boutique", "shelf sign lamp floor"},
	{field, "in", "desert", "sky rock sand bush"},
	{indoor, "in", "bedroom nursery", "wall window curtain floor"},
}

// weathers are conditions that some captions name; the first, the plainest, never is.
var weathers = []string{"", "on a sunny day", "at night", "in the rain", "on a cloudy day", "at sunset", "in the snow",
	"in the fog", "at dawn"}

var (
	colours = []string{"white", "black", "red scarlet crimson", "blue navy", "brown tan", "green emerald",
		"yellow golden", "gray grey silver", "orange", "pink", "purple violet", "beige cream"}
	garments = []string{"shirt blouse", "jacket coat", "hat cap", "t-shirt tee", "dress gown", "shorts",
		"pants trousers jeans", "helmet", "sweater pullover hoodie", "vest", "suit tuxedo", "uniform costume", "scarf",
		"skirt"}
	sizes  = []string{"", "small little tiny miniature", "large big huge giant"}
	counts = []string{"", "", "two", "three"}
)

// pairOnly garments are plural by themselves and take no article.
var pairOnly = map[string]bool{"shorts": true, "pants": true, "trousers": true, "jeans": true}

// styles are looks of a kind of object other than colour and size; index 0 is no style.
var styles = map[kind][]string{
	person: {"", "young youthful", "old elderly aged", "smiling cheerful", "tall", "bald", "bearded", "blond"},
	animal: {"", "furry fluffy shaggy", "wet soaked", "spotted", "muddy dirty", "skinny thin", "young", "sleepy"},
	vehicle: {"", "shiny gleaming", "old vintage antique", "broken damaged", "new modern", "muddy dusty", "wooden",
		"striped"},
	thing: {"", "wooden", "plastic", "metal steel", "striped", "old worn", "shiny", "round", "broken",
		"checkered plaid"},
}

// adverbs and fillers carry no information about the scene.
var (
	adverbs = []string{"happily", "quickly", "slowly", "quietly", "carefully", "gently", "together", "outside",
		"playfully", "calmly",
		"eagerly", "proudly", "lazily", "busily", "gracefully", "loudly", "casually", "patiently", "nervously",
		"bravely", "briskly",
		"cheerfully", "clumsily", "boldly", "softly", "idly", "neatly", "merrily", "steadily", "swiftly", "awkwardly",
		"peacefully"}
	fillers = []string{"very", "really", "rather", "quite", "pretty", "fairly", "somewhat", "oddly", "extremely",
		"unusually"}
	media = []string{"photo", "picture", "image", "view", "snapshot", "shot", "scene", "photograph", "portrait"}
)
