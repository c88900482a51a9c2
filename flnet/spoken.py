"""Words that people read to each other: each stands for ten bits, and its first four letters tell it apart."""

from __future__ import annotations

_WORDS = """
    acid acorn actor actress adult agent airport alarm album alley almond amber anchor angel angle animal
    ankle antenna apple april apron arena armor arrow artist asphalt athlete atlas attic author autumn avenue
    award bacon badge bagel baker balcony ball bamboo banana band bank banner barber barley barn barrel basket
    battery beach beaver beetle bell belt bench bicycle bird biscuit blade blanket block blossom blouse board
    boat bonnet book boot border bottle boulder bouquet bowl bracelet branch brass bread breeze brick bridge
    broom brother brush bubble bucket budget buffalo builder bundle burger butter cabbage cabin cable cactus
    cafe cake calendar camel camp canal candle canoe canvas captain caravan carbon cargo carpet carrot cartoon
    cashew castle catalog cattle cave ceiling celery cellar cement century cereal chain chalk champion channel
    chapel charm cheese cherry chess chicken chief child chimney choir cider cinema circle citizen city clay
    cliff climate clinic clock cloth cloud clover clown coach coast cobra cobweb coconut coffee coin collar
    column comet compass concert cook copper coral cork corner cottage couch cousin cowboy crab cradle crane
    crater crayon cream creek cricket crown crumb crystal cube cuckoo cucumber cupboard curtain cushion custom
    cycle daisy dancer danger dawn debate decade deck deer degree delta dentist desert desk dessert device
    diamond diary digit dinghy dinner dinosaur dish district dock doctor dolphin domino donkey door dough dove
    dozen dragon drama drawer dream dress drink driver drizzle drum duck dust dynasty eagle earring earth
    easel echo eclipse editor effort eight elastic elbow elder election elephant elevator ember emerald
    emotion empire enamel engine entrance envelope equator escape estate evening exam exit expert eyebrow
    fabric factory fairy falcon family farmer fashion father feast feather fence fern ferry festival fever
    fiction fiddle field fifteen figure film finger fire fisher flag flame flannel flask flock flood flour
    flower flute foam folder forest fork fortune fossil fountain fragment frame freezer friday friend frog
    frost fruit fungus funnel furnace future gadget galaxy gallery garage garden garlic garment gate general
    genius gentle geyser ghost giant ginger giraffe glacier glass globe glove glue goat goblin gold golf goose
    gorilla grain grandson grape grass gravel green grill grocer ground guard guest guide guitar gull gymnast
    habit hair hammer hamster handle harbor harmony harp harvest hawk hazel headline heart heater hedge helmet
    herb hermit hero hill hinge hippo history hobby hockey holiday honey hood hook horizon horn horse hospital
    hotel house humor hundred hunter husband hyena iceberg icicle idea igloo image incense inch income index
    infant insect island item ivory jacket january jasmine javelin jelly jersey jewel jigsaw jockey joker
    journal judge juice jumper jungle junior jury kangaroo kayak keeper kennel kettle keyboard kidney kilogram
    kindness king kiosk kitchen kite kitten knee knife knot koala label lace ladder ladle lagoon lake lamb
    lamp lantern laptop laser laundry lava lawn lawyer leaf leather lecture lemon lens leopard lesson letter
    level library lily lime limit linen lion liquid lizard llama lobster locket lodge logic lotus lounge
    lullaby lumber lunch lung magazine magic magnet mammal mango manor mansion mantle maple marble march
    margin market marsh mask mason master match mattress mayor meadow medal melody member memory menu metal
    meteor method microbe middle midnight milk mill mineral minute mirror mission mitten mixture model
    molecule moment monday money monkey month moon morning mosaic mosquito moss mother motor mountain mouse
    mouth movie muffin mule muscle museum mushroom music mustard mystery myth napkin nation nature navy
    necklace nectar needle neighbor nephew nerve nest network nickel night ninety nitrogen noodle noon north
    nose nostril notebook novel number nurse nylon oasis object ocean october office olive omelet onion opera
    orange orbit orchard organ otter outfit oval oven oxen oxygen oyster package paddle page paint palace palm
    pancake panda panel panther paper parade parcel parent park parrot party pasta path patient patrol pattern
    pavement peach peanut pearl pebble pedal pelican pencil penguin penny people pepper perfume person petal
    phone photo physics piano picnic picture pigeon pillow pilot pine pioneer pipe pirate pizza planet plaster
    plate player plaza plum pocket poem poet pole police pollen pond pony popcorn poppy porch port postcard
    potato pottery powder prairie present prince prism prize problem profit project prophet protein puddle
    pulse pumpkin pupil puppet purple purse puzzle pyramid python quarter queen question quilt quiver rabbit
    raccoon radar radio railway rainbow raisin ranch ranger rattle raven razor reader recipe record reef
    referee region relay remedy reporter reptile rescue resort reward rhythm ribbon rice riddle rider ring
    river road robin robot rocket roof rooster root rope rose rotor royal rubber ruby ruler rumble runner
    saddle safari sailor salad salmon salt sample sandal satin saturday saucer sausage scale scarf school
    science scissors scooter scorpion scout screen season second secret seed senate senior session seven
    shadow shampoo shark sheep shelf sheriff shield ship shirt shoe shop shore shovel shower shrimp shutter
    signal silence silver singer sister sixty skate skeleton sketch skirt sleeve slipper slogan smile smoke
    snail snake snow soap soccer socket sofa soil soldier song sonnet soup south spark spatula speaker spice
    spider spinach spiral sponge spoon sport spring square squirrel stable stadium staff stage stamp star
    station steam steel stem stereo stick stomach stone storm stove straw street string student suburb sugar
    suit summer sunday sunset supper surface surgeon surplus swallow swan sweater switch sword symbol syrup
    system table tadpole tailor talent tango tank target tavern taxi teacher team teapot temple tennis tent
    textile theater theory thirty thistle thousand thread throne thumb thunder ticket tiger timber toast
    toilet tomato tongue tool tooth topaz torch tornado tortoise toucan tourist towel town tractor traffic
    train travel tray treasure tree triangle tribe trick trophy trousers truck trumpet trunk tuesday tulip
    tunic tunnel turkey turtle twelve twenty twig twilight twin umbrella uncle unicorn uniform union unit
    upper urban utensil vacuum valley value vanilla vase vault vehicle velvet vendor venture verb vessel
    veteran victory video viking village vinegar violet visitor vitamin vocal voice volcano volume voucher
    voyage waffle wagon waiter walker wallet walnut walrus warrior wasp watch water wave weather wedding
    weekend whale wheat wheel whisper wicket willow window winter wisdom witness wizard wolf wonder wood wool
    worker world wreath writer yacht yard yellow yoga yogurt zebra zero zigzag zinc zipper zone
"""
WORDS = tuple(_WORDS.split())
BITS = 10  # that one word stands for


def spoken(raw: bytes, count: int) -> str:
    """The first bits as so many words, with hyphens between them.

    Args:
        raw: at least `count * BITS` bits.
    """
    number = int.from_bytes(raw) >> (8 * len(raw) - BITS * count)
    return "-".join(WORDS[number >> BITS * place & (1 << BITS) - 1] for place in reversed(range(count)))
